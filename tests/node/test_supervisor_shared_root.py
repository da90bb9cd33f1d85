"""Two nodes below one root: locks, folders and what is stopped are each node's own.

The second node is this one under another name.
"""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.test_supervisor import SLEEP, Run, call

HERE = socket.gethostname()
OTHER = "import os, types; os.uname = lambda: types.SimpleNamespace(nodename='n2')"


class OnTheOther(Run):
    """A run on the second node."""

    def prepare(self, **more: Any) -> dict[str, Any]:
        return super().prepare(before=OTHER, **more)


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Run, Run]]:
    """Two parts of one run, which are prepared and go on."""
    runs, run_id = tmp_path / "runs", "c/cell/r1a1"
    first, second = Run(runs, SLEEP, run_id=run_id), OnTheOther(runs, SLEEP, run_id=run_id)
    for run, host in ((first, "n1"), (second, "n2")):
        run.dir = runs / host / run_id
        run.job["dir"] = str(run.dir)
        run.start()
    yield first, second
    for run in (first, second):
        run.clean()


def test_each_node_has_its_lock_and_stops_its_own_run(
    both: tuple[Run, Run], tmp_path: Path
) -> None:
    first, second = both
    runs = tmp_path / "runs"
    assert {path.name for path in runs.glob("lock-*")} == {f"lock-{HERE}", "lock-n2"}
    assert (runs / "lock-n2").read_text() == "n2/c/cell/r1a1"
    assert [json.loads((run.dir / "job.json").read_text())["hostname"] for run in both] == [
        HERE,
        "n2",
    ]
    spec = {"runs": str(runs), "patience_s": 5.0}
    stopped = call("stopping:stop_all", spec)["ended"]
    assert [each["dir"] for each in stopped] == [str(first.dir)]
    assert second.poll()["done"] is None, "another node's run goes on"
    stopped = call("stopping:stop_all", spec, before=OTHER)["ended"]
    assert [each["dir"] for each in stopped] == [str(second.dir)]
    assert first.ask("run_folder:close", keep=False)["removed"] is True
    assert not (runs / "n1").exists()
    assert second.dir.exists()


def test_a_root_that_is_shared_and_not_said_to_be_is_refused(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    first = Run(runs, SLEEP, run_id="c/cell/r1a1").start()
    answer = OnTheOther(runs, "true", run_id="c/cell/r1a1").prepare()
    assert answer["refused"] == "shared_root"
    assert answer["message"] == (
        f"{first.dir} is also a folder of {HERE}; nodes that share cluster_root need"
        " cluster_root_shared: true in the inventory"
    )
    first.clean()


def test_each_node_removes_old_runs_of_its_own(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for host in ("n1", "n2"):
        for number in range(1, 23):
            folder = runs / host / f"c/cell/r1a{number}"
            folder.mkdir(parents=True)
            for name in ("job.json", "done.json", "fetched"):
                (folder / name).write_text("{}")
    run = Run(runs, "true", run_id="c/new/r1a1")
    run.job["dir"] = str(runs / "n1" / run.id)
    assert "refused" not in run.prepare()
    run.dir = Path(run.job["dir"])
    run.clean()
    left = {host: len(os.listdir(runs / host / "c" / "cell")) for host in ("n1", "n2")}
    assert left == {"n1": 20, "n2": 22}


def test_a_file_system_without_locks_is_refused_with_the_cure(tmp_path: Path) -> None:
    without = "import fcntl\ndef none(*_): raise OSError(38, 'Function not implemented')\n"
    answer = Run(tmp_path / "runs", "true").prepare(before=f"{without}fcntl.flock = none")
    assert answer["refused"] == "io_error"
    assert "cannot be locked (Function not implemented); mount its file" in answer["message"]
