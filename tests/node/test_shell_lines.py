"""What lines of a shell change of a run's environment, with the real bash."""

from pathlib import Path
from typing import Any

import pytest

from node.supervisor.answers import RefusedError
from node.supervisor.shell_lines import merged, set_up, take_down


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bash_profile").write_text("export PROFILE=yes PATH=/usr/bin:/bin\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SLURM_NODEID", "3")
    monkeypatch.setenv("OF_THE_LOGIN_NODE", "no")
    env = {"PATH": "/pins/env/bin:/usr/bin:/bin", "NCCL_DEBUG": "INFO", "TMPDIR": "/not/there"}
    return {"env": env, "cwd": str(tmp_path), "dir": str(tmp_path)}


def changed(job: dict[str, Any], *lines: str) -> dict[str, str]:
    was = dict(job["env"])
    set_up(job, lines, f"{job['cwd']}/setup.log")
    return {name: value for name, value in job["env"].items() if was.get(name) != value}


def test_what_lines_set_is_the_trainers_and_nothing_of_the_profile(job: dict[str, Any]) -> None:
    lines = ["A='a b'", "export A", "export PATH=/opt/bin:$PATH", "export B=$SLURM_NODEID$PROFILE"]
    assert changed(job, *lines) == {
        "A": "a b",
        "B": "3yes",
        "PATH": "/opt/bin:/pins/env/bin:/usr/bin:/bin",
    }
    assert job["env"]["TMPDIR"] == "/not/there"


def test_lines_may_change_and_unset_what_the_run_has(job: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "env.sh").write_text(
        "unset NCCL_DEBUG\nexport SEEN=${OF_THE_LOGIN_NODE:-nothing}\n"
    )
    assert changed(job, "source env.sh", "f() { :; }; export -f f") == {"SEEN": "nothing"}
    assert "NCCL_DEBUG" not in job["env"]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["true", "cd /nowhere"], "slurm_setup: `cd /nowhere` ended with exit code 1: "),
        (["echo why; (exit 3)", "true"], "`echo why; (exit 3)` ended with exit code 3: why"),
        (["exit 0"], "slurm_setup: `exit 0` "),
        (["if true"], "slurm_setup: `if true` ended with exit code "),
        (["kill -9 $$"], "slurm_setup: `kill -9 $$` was ended by signal 9"),
    ],
)
def test_the_line_that_failed_is_named(job: dict[str, Any], lines: list[str], says: str) -> None:
    with pytest.raises(RefusedError) as refused:
        changed(job, *lines)
    assert says in str(refused.value)


def test_what_is_named_like_a_secret_is_not_to_be_recorded() -> None:
    env, hidden = merged({}, {"A": "1"}, {"A": "2", "MY_API_KEY": "x", "_": "y"})
    assert (env, hidden) == ({"A": "2", "MY_API_KEY": "x"}, ["MY_API_KEY"])


def test_each_line_of_a_teardown_runs(job: dict[str, Any], tmp_path: Path) -> None:
    take_down({**job, "teardown": ["false", "echo $NCCL_DEBUG > left"]})
    assert (tmp_path / "left").read_text() == "INFO\n"
