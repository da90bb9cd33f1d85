"""`runner doctor` and verify.yml as whole commands, on this machine."""

import json
from pathlib import Path
from typing import Any

import pytest

from runner.__main__ import main
from runner.base.paths import PROJECT
from tests.documented_schemas import fits
from tests.golden.places import inventory
from tests.roles.play import play

LOCAL: dict[str, Any] = {
    "cluster_devices_per_node": 1,
    "cluster_systems": [],
    "setup_privileged": False,
}
# An address on which nothing listens: connections are refused at once.
CLOSED = {"ansible_host": "127.0.0.1", "ansible_port": 9, "ansible_user": "nobody"}


def doctor(*words: str | Path) -> int:
    return main(["doctor", *map(str, words)])


def test_an_address_that_is_still_to_be_edited_is_refused_before_a_node_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor("-i", PROJECT / "inventory" / "vs", "--runs", tmp_path) == 2
    assert "the address of vs009 is still EDIT-ME; write it into" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_this_machine_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No role is set up below this root: its dataset is missing, and said to be."""
    place = inventory(tmp_path / "here", **LOCAL, cluster_root=str(tmp_path / "root"))
    rc = doctor("-i", place, "--runs", tmp_path, "--only", "env", "--format", "json")
    found = json.loads(capsys.readouterr().out)
    assert rc == found["exit_code"] == 1
    fits(found, "doctor")
    assert [(one["node"], one["role"]) for one in found["checks"]] == [
        (found["nodes"][0], "dataset")
    ]
    assert found["measured"] is None
    folder = tmp_path / ".doctor" / found["inventory"]
    assert doctor("--from", folder) == 1
    assert "1 node compared, 1 role asked: 1 failed check" in capsys.readouterr().out


def test_without_torch_there_is_no_result_and_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = inventory(tmp_path / "here", **LOCAL, cluster_root=str(tmp_path / "root"))
    assert doctor("-i", place, "--runs", tmp_path, "--only", "devices") == 2
    assert "no result: torch is in no environment of" in capsys.readouterr().out


def test_nodes_that_all_refuse_are_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = {"nodes": {"hosts": {"n1": CLOSED, "n2": CLOSED}}}
    place = inventory(tmp_path / "there", hosts, **LOCAL)
    assert doctor("-i", place, "--runs", tmp_path) == 2
    told = capsys.readouterr().err
    assert "error: n1, n2 cannot be used: ssh: connect to host 127.0.0.1 port 9: Conn" in told
    assert f"(`ansible n1,n2 -i {place} -m ping` must work without a prompt), or take" in told
    assert len(told.splitlines()) == 1


def test_no_such_inventory_and_no_such_folder_are_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor("-i", "inventory/lokal") == 2
    assert "did you mean inventory/local?" in capsys.readouterr().err
    assert doctor("--from", tmp_path) == 2
    assert "holds no asked.json" in capsys.readouterr().err


def test_check_mode_reports_and_neither_fails_nor_changes(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    words = ["--check", "-e", f"cluster_root={root}", "-e", f"verify_out_dir={tmp_path}/out"]
    ran = play(PROJECT / "inventory" / "local", *words, playbook="verify.yml")
    assert ran.rc == 0, ran.out
    assert "1 node compared, 2 roles asked" in ran.out
    assert list(root.iterdir()) == []
