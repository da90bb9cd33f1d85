"""Each address of the roles is listed, and has a mirror."""

import re
from pathlib import Path

import pytest

from plugins.filter.mirrors import KINDS
from plugins.public_addresses import NEVER, UnknownAddressError, found
from runner.base.paths import PROJECT


def test_every_address_is_covered_by_a_mirror() -> None:
    listed = found(PROJECT / "roles")
    assert {item.kind for item in listed} <= {*KINDS, NEVER}
    # Those that are never contacted stand in messages only.
    assert {item.role for item in listed if item.kind == NEVER} == {"npu"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_put_to_use_by_a_role(kind: str) -> None:
    texts = [
        path.read_text(encoding="utf-8")
        for folder in ("roles", "node")
        for path in (PROJECT / folder).rglob("*")
        if path.suffix in (".yml", ".py") and path.parent.name != "meta"
    ]
    if kind not in {item.kind for item in found(PROJECT / "roles")}:
        return
    used = rf"mirrored\W+(\w+\W+)?'{kind}'|mirrors[^\n]*(\.{kind}\b|\W{kind}\W)"
    assert any(re.search(used, text) for text in texts)


def test_text_within_other_text_and_programs_is_seen(tmp_path: Path) -> None:
    role = tmp_path / "conda"
    (role / "defaults").mkdir(parents=True)
    (role / "files").mkdir()
    (role / "defaults" / "main.yml").write_text(
        "conda_url: 'see https://a.example/x, {{ y }}'\nconda_channels: [https://b.example/c]\n"
        "# https://comment.example/\n"
    )
    (role / "files" / "p.py").write_text(
        '"""https://doc.example/"""\nX = "https://pypi.org/simple"\n'
    )
    assert [(item.address, item.kind) for item in found(tmp_path)] == [
        ("https://a.example/x", "conda"),
        ("https://b.example/c", "conda"),
        ("https://pypi.org/simple", "pip"),
    ]


def test_an_address_without_a_rule_is_refused_by_role_and_key(tmp_path: Path) -> None:
    defaults = tmp_path / "launch" / "defaults"
    defaults.mkdir(parents=True)
    (defaults / "main.yml").write_text("launch_home: http://home.example/\n")
    with pytest.raises(
        UnknownAddressError, match=r"^role launch, launch_home: http://home\.example/ has no"
    ):
        found(tmp_path)
