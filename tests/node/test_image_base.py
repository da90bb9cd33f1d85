"""The base of an image is a tag that moves: what it was first is recorded, and built from again.

The engine is a script that answers as podman does: no registry can be had where this runs.
"""

from pathlib import Path
from typing import Any

import pytest

from node import image, pin
from node.image_engine import ImageError

FIRST, SECOND = (f"sha256:{digit * 64}" for digit in "ab")
ENGINE = """#!/bin/sh
echo "$*" >>{folder}/told
case "$1" in
  build) case "$*" in *{gone}*) echo "Error: {gone}: manifest unknown" >&2; exit 125 ;; esac ;;
  image) cat {folder}/digest ;;
  images) echo sha256:{id} ;;
  run) case "$*" in *--version) echo Python 3.11.2 ;; *) echo torch==2.13.0 ;; esac ;;
  save) echo archive >"$3" ;;
esac
"""


class Site:
    """A node with an engine, and a registry whose tag moves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.moves(FIRST)
        self.engine()
        self.spec: dict[str, Any] = {
            "engine": str(folder / "podman"),
            "image": "localhost/trainbench/toy:p",
            "base": "registry.example:5000/team/torch:24.01-py3",
            **{"files": {}, "requirements": [], "file": "", "supervised": False, "made": []},
            **{"home": str(folder / "home"), "archive": str(folder / "archive"), "build": []},
            **{"mirrors": {}, "index": "", "extra_index": "", "find_links": ""},
        }

    def engine(self, gone: str = "nothing-is-gone") -> None:
        path = self.folder / "podman"
        path.write_text(ENGINE.format(folder=self.folder, id="cd" * 32, gone=gone))
        path.chmod(0o755)

    def moves(self, digest: str) -> None:
        names = f'["registry.example:5000/team/torch@{digest}"]' if digest else "Error: no image"
        (self.folder / "digest").write_text(f"{names}\n")

    def built_from(self) -> list[str]:
        lines = (self.folder / "told").read_text().splitlines()
        return [line.split("BASE=")[1].split()[0] for line in lines if "BASE=" in line]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "node")


def test_what_a_tag_was_first_is_built_from_again(site: Site) -> None:
    said = image.build(site.spec)
    assert said["base"] == f"registry.example:5000/team/torch@{FIRST}"
    asked = {"pin": "p", "said": {}, "files": {}}
    assert pin.installed(asked, {}, said)["identity"]["base"] == said["base"]
    site.moves(SECOND)
    assert image.build(site.spec)["base"] == said["base"]
    assert site.built_from() == [site.spec["base"], said["base"]]
    other = {**site.spec, "base": "registry.example:5000/team/torch:24.02-py3"}
    assert image.build(other)["base"] == f"registry.example:5000/team/torch@{SECOND}"


def test_a_digest_that_the_registry_no_longer_has_is_named_with_the_cure(site: Site) -> None:
    image.build(site.spec)
    site.engine(gone=FIRST)
    with pytest.raises(ImageError) as error:
        image.build(site.spec)
    record = site.folder / "home" / "image.json"
    assert (
        f"cannot be built from registry.example:5000/team/torch@{FIRST}, which"
        " registry.example:5000/team/torch:24.01-py3 was when it was first built here; remove"
        f" {record} to take what that is today"
    ) in str(error.value)
    record.unlink()
    site.moves(SECOND)
    assert image.build(site.spec)["base"].endswith(SECOND)


def test_a_node_that_is_given_the_image_knows_its_base(site: Site, tmp_path: Path) -> None:
    image.build(site.spec)
    image.save(site.spec)
    other = Site(tmp_path / "other")
    other.moves("")
    taken = image.load({**other.spec, "archive": site.spec["archive"]})
    assert taken["base"] == f"registry.example:5000/team/torch@{FIRST}"


def test_an_engine_that_cannot_say_it_records_none(site: Site) -> None:
    site.moves("")
    assert "base" not in image.build(site.spec)
    site.spec["base"] = f"registry.example/torch@{SECOND}"
    assert image.build(site.spec)["base"] == site.spec["base"]
