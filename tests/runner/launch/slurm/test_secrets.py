"""Secrets of cluster_env reach the runner by its memory, and are in no file (real plays)."""

import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from runner.base.errors import UserError
from runner.launch.slurm.secrets import reveal
from tests.golden.places import stood_in
from tests.runner.builders import small_cluster

SECRET = uuid.uuid4().hex


def files_with_it(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()]


def test_secrets_come_by_memory_and_are_in_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that cannot be read are named, and none is quoted."""
    monkeypatch.setenv("KEPT_ELSEWHERE", f"{SECRET} 'a\nb'")
    variables = {
        "HF_TOKEN": "{{ lookup('env', 'KEPT_ELSEWHERE') }}",
        "A_TOKEN": f"{{{{ '{SECRET}' | no_such_filter }}}}",
        "B_TOKEN": f"{SECRET}{'x' * 100_000}",
    }
    inventory = stood_in(tmp_path / "inventory", tmp_path / "root", cluster_env=variables)
    cluster = replace(small_cluster(), path=inventory, secrets=("HF_TOKEN",))
    runs = tmp_path / "runs"
    assert reveal(cluster, runs) == {"HF_TOKEN": f"{SECRET} 'a\nb'"}
    with pytest.raises(UserError) as caught:
        reveal(replace(cluster, secrets=("HF_TOKEN", "A_TOKEN", "B_TOKEN", "C_TOKEN")), runs)
    said = str(caught.value)
    assert "A_TOKEN cannot be read" in said
    assert "B_TOKEN holds a NUL character or over 100000 letters" in said
    assert "cluster_env of the inventory has no C_TOKEN any more" in said
    assert SECRET not in said
    assert files_with_it(runs) == []


def test_nothing_is_played_where_there_are_none(tmp_path: Path) -> None:
    assert reveal(small_cluster(), tmp_path) == {}
    assert list(tmp_path.iterdir()) == []
