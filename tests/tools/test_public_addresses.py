"""docs/public-addresses.md is what the roles say, and each address has a mirror."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from plugins.filter.mirrors import KINDS
from plugins.public_addresses import NEVER, found
from runner.base.paths import PROJECT

TOOL = PROJECT / "tools" / "public-addresses"


def test_the_document_is_what_the_roles_say() -> None:
    ran = subprocess.run([sys.executable, str(TOOL), "--check"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


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
    for name in ("tools", "roles", "node", "docs", "plugins"):
        shutil.copytree(PROJECT / name, tmp_path / name)
    defaults = tmp_path / "roles" / "launch" / "defaults"
    defaults.mkdir()
    (defaults / "main.yml").write_text("launch_home: http://home.example/\n")
    argv = [sys.executable, str(tmp_path / "tools" / "public-addresses"), "--check"]
    ran = subprocess.run(argv, capture_output=True, text=True)
    assert ran.returncode == 1
    assert ran.stderr.startswith("role launch, launch_home: http://home.example/ has no rule in")
