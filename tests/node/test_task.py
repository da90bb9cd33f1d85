"""A run's node as a task of srun, and what node rank 0 does for all: the parts that need no Slurm.

What they do together is seen on real Slurm, in tests/on_slurm.
"""

import ctypes
import errno
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from node.answer import ProgramError
from node.causes import Cause, EndedBy
from node.supervisor import names, placeholders, rank0, slurm_environment, task
from node.supervisor.answers import RefusedError
from node.supervisor.placeholders import MASTER_ADDR, MASTER_PORT, NODE_SWITCH, node_addr

PLACEMENT = {"address": ["gpu7", "gpu9"], "port": 23456}


def test_words_of_a_plan_are_filled_in_as_data() -> None:
    argv = ["--master_addr", MASTER_ADDR, f"--ips={MASTER_ADDR},{node_addr(1)}", MASTER_PORT]
    assert placeholders.filled(argv, PLACEMENT) == [
        "--master_addr",
        "gpu7",
        "--ips=gpu7,gpu9",
        "23456",
    ]
    assert placeholders.filled({"A": f"tcp://{MASTER_ADDR}:{MASTER_PORT}"}, PLACEMENT) == {
        "A": "tcp://gpu7:23456"
    }
    assert placeholders.filled(NODE_SWITCH, {"switch_here": "top.leaf0"}) == "top.leaf0"
    assert placeholders.filled(NODE_SWITCH, PLACEMENT) == ""


@pytest.mark.parametrize("text", ["{master}", "{{ master_addr }}", "{node_addr_x}", '{"a": {}}'])
def test_nothing_else_of_a_plan_is_a_word(text: str) -> None:
    assert placeholders.filled(text, PLACEMENT) == text


def device_job(**more: Any) -> dict[str, Any]:
    return {"device": "cuda", "device_ids": [0, 1], "env": {}, **more}


def test_the_devices_are_those_that_slurm_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6,7")
    job = device_job()
    slurm_environment.take_devices(job)
    assert job["device_ids"] == [4, 6]
    assert job["env"] == {"CUDA_VISIBLE_DEVICES": "4,6"}


def test_devices_may_have_other_names_than_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1a,GPU-2b")
    job = device_job()
    slurm_environment.take_devices(job)
    assert job["env"] == {"CUDA_VISIBLE_DEVICES": "GPU-1a,GPU-2b"}


def test_fewer_devices_than_the_cell_needs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    with pytest.raises(RefusedError, match="1 GPUs of this node and the cell needs 2; see slurm_"):
        slurm_environment.take_devices(device_job())


def test_secrets_leave_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{slurm_environment.SECRETS}HF_TOKEN", "hf_x")
    assert slurm_environment.taken_secrets() == {"HF_TOKEN": "hf_x"}
    assert f"{slurm_environment.SECRETS}HF_TOKEN" not in os.environ


def run_folder(folder: Path, mark: str = "m1", nodes: int = 2) -> Path:
    """An attempt's folder as bench leaves it."""
    folder.mkdir(parents=True)
    run = {
        "run_id": "camp/cell/r1a1",
        "attempt": 1,
        "supervisor": {"stall_limit_s": 60.0},
        "nodes": [
            {"host": f"rank{rank}", "node_rank": rank, "dir": f"{folder}/nodes/{rank:04d}"}
            for rank in range(nodes)
        ],
    }
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "slurm.json").write_text(json.dumps({"mark": mark}))
    return folder


def spec(folder: Path, **more: Any) -> dict[str, Any]:
    return {"run": str(folder), "mark": "m1", "restart": 0, "programs": "/p.json", **more}


def test_a_folder_that_is_another_one_here_is_not_shared(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "attempt1", mark="of another folder")
    with pytest.raises(ProgramError, match=r"does not see .*attempt1; --runs and"):
        task.Task(spec(folder))


def test_a_folder_that_never_shows_is_not_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "FOLDER_S", 0.0)
    with pytest.raises(ProgramError, match="login and compute nodes share"):
        task.Task(spec(tmp_path / "attempt1"))


def test_a_requeued_job_goes_on_as_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run_folder(tmp_path / "attempt1")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
    monkeypatch.setenv("SLURM_NODEID", "0")
    part = task.Task(spec(first))
    assert part.folder == str(tmp_path / "attempt3")
    again = json.loads((tmp_path / "attempt3" / "run.json").read_text())
    assert (again["run_id"], again["attempt"]) == ("camp/cell/r1a3", 3)
    assert again["nodes"][1]["dir"] == f"{tmp_path}/attempt3/nodes/0001"


def test_other_numbers_of_tasks_than_of_nodes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_STEP_NUM_NODES", "3")
    with pytest.raises(ProgramError, match="on 3 nodes, but the run needs 2; start it again"):
        task.Task(spec(run_folder(tmp_path / "attempt1")))


@pytest.mark.parametrize(
    ("words", "all_of_them"), [([MASTER_ADDR, MASTER_PORT], False), ([f"a {node_addr(1)}"], True)]
)
def test_a_node_reads_the_addresses_of_all_only_where_it_needs_them(
    words: list[str], all_of_them: bool
) -> None:
    job = {"argv": ["x"], "env": {}, "after": [], "files": {"hostfile": "\n".join(words)}}
    assert placeholders.needs_others(job) is all_of_them


def come(roster: rank0.Roster, rank: int) -> None:
    facts = {"host": f"n{rank}", "address": f"10.0.0.{rank}", "devices": [rank], "cpus": 4}
    roster.come(rank, facts)


def test_placement_is_written_once_all_have_come(tmp_path: Path) -> None:
    roster = rank0.Roster(str(tmp_path), 2)
    come(roster, 1)
    rank0.place(str(tmp_path), roster, [20_000])
    assert roster.absent() == ["0000"]
    assert not (tmp_path / "placement.json").exists()
    come(roster, 0)
    rank0.place(str(tmp_path), roster, [20_000])
    placement = json.loads((tmp_path / "placement.json").read_text())
    assert placement["host"] == ["n0", "n1"]
    assert placement["address"] == ["10.0.0.0", "10.0.0.1"]
    assert placement["devices"] == [[0], [1]]


def test_the_port_is_the_wanted_one_or_the_next_free_one() -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = rank0.free_port(20_000)
        assert port in placeholders.PORTS
        with socket.socket() as other:
            other.bind(("", port))
            other.listen()
            assert rank0.free_port(port) > port


def test_the_port_is_found_where_the_kernel_has_no_ipv6() -> None:
    child = os.fork()
    if not child:
        refuse_ipv6()
        os._exit(0 if rank0.free_port(20_000) in placeholders.PORTS else 1)
    assert os.waitpid(child, 0)[1] == 0


def refuse_ipv6() -> None:
    """Have the kernel answer socket(AF_INET6) of this process with EAFNOSUPPORT: seccomp(2)."""
    number = {"x86_64": 41, "aarch64": 198}[os.uname().machine]  # of socket
    load, equal, end = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET
    program = [(load, 0, 0, 0), (equal, 0, 3, number), (load, 0, 0, 16)]
    program += [(equal, 0, 1, socket.AF_INET6), (end, 0, 0, 0x00050000 | errno.EAFNOSUPPORT)]
    code = b"".join(struct.pack("HBBI", *each) for each in [*program, (end, 0, 0, 0x7FFF0000)])
    buffer = ctypes.create_string_buffer(code)
    rules = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, rules, 0, 0) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
    with pytest.raises(OSError, match="not supported"):
        socket.socket(socket.AF_INET6)


def test_a_node_that_has_ended_is_in_the_roster_once(tmp_path: Path) -> None:
    roster = rank0.Roster(str(tmp_path), 2)
    come(roster, 0)
    come(roster, 1)
    roster.ended(1)
    assert sorted(os.listdir(tmp_path / names.ROSTER)) == ["0000", "0001.over"]
    rank0.place(str(tmp_path), roster, [20_000])
    assert not (tmp_path / names.PLACEMENT).exists()  # it ends before it began
    roster.ended(0)
    assert roster.absent(rank0.OVER) == []
    (tmp_path / names.ROSTER / "0000.over").unlink()
    (tmp_path / names.ROSTER / "0001.over").unlink()
    (tmp_path / names.ROSTER).rmdir()
    roster.ended(1)  # it is late: bench has put all of it away


def test_a_run_is_over_once_all_nodes_have_ended(tmp_path: Path) -> None:
    roster = rank0.Roster(str(tmp_path), 2)
    waiting = threading.Thread(target=rank0.finish, args=(str(tmp_path), roster, lambda: False))
    waiting.start()
    roster.ended(0)
    assert not (tmp_path / "ended").exists()
    roster.ended(1)
    waiting.join(5)
    assert (tmp_path / "ended").exists()


def test_a_node_that_does_not_end_is_not_waited_for_beyond_the_halt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank0, "PATIENCE_S", 0.0)
    (tmp_path / "halt").write_text("{}")
    rank0.finish(str(tmp_path), rank0.Roster(str(tmp_path), 2), lambda: False)
    assert (tmp_path / "ended").exists()


def test_a_stall_is_a_rest_of_all_logs(tmp_path: Path) -> None:
    stalls = rank0.Stalls([str(tmp_path / "0"), str(tmp_path / "1")], limit_s=20.0)
    assert not stalls.stalled(1e6)  # nothing counts before it began
    stalls.begin(100.0)
    assert not stalls.stalled(110.0)
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "launcher.log").write_text("a line")
    assert not stalls.stalled(125.0)
    assert not stalls.stalled(140.0)
    assert stalls.stalled(146.0)


def test_a_name_that_is_loopback_here_is_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_environment, "addresses", lambda host: iter(["127.0.1.1"]))
    monkeypatch.setenv("SLURM_LAUNCH_NODE_IPADDR", "")
    assert slurm_environment.address_of("n1") == "n1"  # nothing better is known
    monkeypatch.setattr(slurm_environment, "addresses", lambda host: iter(["10.0.0.5"]))
    assert slurm_environment.address_of("n1") == "n1"


def test_a_launcher_that_slurm_ends_with_its_supervisor_was_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task, "TOLD_S", 0.02)
    done = {"ended_by": EndedBy.EXIT, "rc": None, "signal": 15}
    assert task.if_told(done) == done
    monkeypatch.setattr(task, "TERMINATED", [True])
    told = {**done, "ended_by": EndedBy.STOP, "message": "the supervisor was sent TERM"}
    assert task.if_told(done) == told
    well = {"ended_by": EndedBy.EXIT, "rc": 0}
    assert task.if_told(well) == well


def test_causes_of_a_task_are_known_ones() -> None:
    text = Path(task.__file__).read_text(encoding="utf-8")
    assert all(name in Cause.__members__ for name in re.findall(r"\bCause\.([A-Z_]+)", text))


def test_a_node_whose_slurmstepd_is_gone_ends_its_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen on real Slurm: the run went on, on a node that Slurm had given up."""
    monkeypatch.setenv("SLURM_NODEID", "1")
    part = task.Task(spec(run_folder(tmp_path / "attempt1")))
    part.looked = time.monotonic()
    assert part.asked() is None
    monkeypatch.setattr(os, "getppid", lambda: 1)
    asked = part.asked()
    assert asked is not None
    assert (asked["ended_by"], "slurmstepd" in asked["message"]) == (EndedBy.ERROR, True)


STANDS_STILL = """
import sys, time
from node.supervisor.suspension import Suspension
suspension = Suspension()
suspension.watch()
print("begun", flush=True)
while True:
    if pause_s := suspension.pause_s(time.monotonic()):
        print(pause_s, flush=True)
    time.sleep(0.05)
"""


def test_a_process_that_is_stopped_and_goes_on_knows_for_how_long() -> None:
    argv = [sys.executable, "-c", STANDS_STILL]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGCONT)  # without a pause: nothing
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.6)
        process.send_signal(signal.SIGCONT)
        paused_s = float(process.stdout.readline())
        process.kill()
    assert 1.5 < paused_s < 30


def test_a_suspended_run_notes_it_and_is_not_stalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    part = task.Task(spec(run_folder(tmp_path / "attempt1")))
    part.notes = ["another process is busy"]
    part.watchman.begin(100.0)
    part.note_suspended(600.0)
    prepared = json.loads(Path(names.PREPARED).read_text())
    assert prepared["noted"] == [
        "another process is busy",
        "the run was suspended for 10 min (as by scontrol suspend), and then went on",
    ]
    assert not part.watchman.stalled(720.0)
    assert part.watchman.stalled(830.0)
