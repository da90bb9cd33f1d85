"""An image that is a file on a root that nodes share. The programs that build it are scripts here:
they take the options of podman, apptainer and enroot that the table has, and write what they say.
"""

import os
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from node import image
from node.image_engine import ImageError
from runner.terms import container_engines
from runner.terms.container_engines import ENGINES

IMAGE = "localhost/trainbench/toy:p"
ENGINE = """#!/bin/sh
echo "$0 $*" >>{folder}/told
case "$1" in
  images) echo sha256:{id} ;;
  run) case "$*" in *--version) echo Python {python} ;; *) echo torch==2.13.0 ;; esac ;;
  save) [ -e "$3" ] && {{ echo "$3 exists" >&2; exit 125; }}; echo "archive of $4" >"$3" ;;
  build) [ "$2" = --force ] || exit 2; cat "${{4#docker-archive:}}" >"$3"; echo sif >>"$3" ;;
  import) [ -e "$3" ] && exit 1; echo "sqsh of $4" >"$3" ;;
esac
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The spec of an engine's image, as the role trainer makes it."""

    def build(name: str, python: str = "3.11.2") -> dict[str, Any]:
        for program in ("podman", "apptainer", "enroot"):
            text = ENGINE.format(folder=tmp_path, id="ab" * 32, python=python)
            (tmp_path / program).write_text(text)
            (tmp_path / program).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setattr(container_engines, "BUILDER", str(tmp_path / "podman"))
        engine, home = ENGINES[name], tmp_path / "home"
        archive, file = str(tmp_path / "images" / "toy-p"), engine.file(PurePosixPath(home))
        made = [list(argv) for argv in engine.made(IMAGE, f"{archive}.tar", f"{file}.new")]
        return {
            **{"engine": str(tmp_path / "podman"), "image": IMAGE, "base": "b", "files": {}},
            **{"requirements": [["torch==2.13.0"]], "home": str(home), "archive": archive},
            **{"made": [[argv[0].replace("/usr/bin/", ""), *argv[1:]] for argv in made]},
            **{"file": file, "supervised": engine.starter, "build": engine.building},
        }

    return build


@pytest.mark.parametrize(
    ("engine", "name", "content"),
    [
        ("podman", "image.tar", f"archive of {IMAGE}\n"),
        ("apptainer", "image.sif", f"archive of {IMAGE}\nsif\n"),
        ("pyxis", "image.sqsh", f"sqsh of podman://{IMAGE}\n"),
    ],
)
def test_the_file_is_made_once_and_known_again(
    site: Any, engine: str, name: str, content: str
) -> None:
    spec = site(engine)
    assert image.look(spec)["faults"] == [f"the image {IMAGE} is not there"]
    said = image.write_down(spec)
    assert (said["faults"], said["image"]) == ([], "ab" * 32)
    path = Path(spec["file"])
    assert (path.name, path.read_text()) == (name, content)
    assert sorted(os.listdir(path.parent)) == sorted([name, "image.json", "logs"])
    assert not os.path.exists(f"{spec['archive']}.tar")
    assert image.write_down(spec)["faults"] == []  # what is there is no hindrance
    assert image.starts_here(spec)
    os.remove(spec["engine"])  # another login node's storage has nothing
    assert not image.starts_here(spec)
    assert image.look(spec)["faults"] == image.verify(spec)["faults"] == []


def test_another_file_is_named(site: Any) -> None:
    spec = site("apptainer")
    image.write_down(spec)
    path = Path(spec["file"])
    content = path.read_bytes()
    path.write_bytes(content[::-1])
    with pytest.raises(ImageError, match=r"image.sif is not as setup made it; run setup"):
        image.verify(spec)
    path.write_bytes(b"short")
    assert "is not the one that setup put here" in image.look(spec)["faults"][0]


def test_a_program_that_is_not_there_is_named_with_the_cure(site: Any, tmp_path: Path) -> None:
    spec = site("pyxis")
    (tmp_path / "enroot").unlink()
    with pytest.raises(ImageError, match=r"enroot is not on PATH here; install it, or name an"):
        image.write_down(spec)
    assert "is not there" in image.look(spec)["faults"][0]


def test_an_image_that_no_supervisor_runs_in_is_refused(site: Any) -> None:
    with pytest.raises(ImageError, match=r"has Python 3.6.10, and the supervisor, .* needs 3.8"):
        image.write_down(site("pyxis", "3.6.10"))
    assert image.write_down(site("apptainer", "3.6.10"))["faults"] == []
