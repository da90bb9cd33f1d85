"""Every fault of docs/reliability.md: what is done, and how the struck cell must end."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from runner.folder import names
from runner.terms.cluster import LOST_CONTACT_S
from tests import stand_in
from tests.cluster.system import base_python
from tests.faults.stage import PATIENCE_S, Row, Stage
from tests.on_nodes.campaign import Bench, descendants

LATE = """#!{python} -IS
# A node's Python whose clock is an hour ahead: the nodes of a test share one kernel, and its clock.
import runpy, sys, time
true, true_ns = time.time, time.time_ns
time.time = lambda: true() + 3600
time.time_ns = lambda: true_ns() + 3600 * 10**9
sys.argv = words = [word for word in sys.argv[1:] if word not in ("-I", "-S", "-IS")]
if words[:1] == ["-"]:
    exec(compile(sys.stdin.read(), "<stdin>", "exec"), {{"__name__": "__main__"}})
elif words[:1] == ["-c"]:
    sys.argv = ["-c", *words[2:]]
    exec(words[1], {{"__name__": "__main__"}})
else:
    runpy.run_path(words[0], run_name="__main__")
"""


BUSY_S = 30
EVIL = "a 'b' \"c\" $(touch /run/owned) `id` {{ lookup('pipe', 'touch /run/owned') }}\n✓ \\"
S = TypeVar("S", bound=Stage)


@dataclass(frozen=True)
class Fault(Generic[S]):
    """A fault: `do` makes it happen on a stage, `ends` are the struck cell's (status, cause).

    `act` is for the stand-in trainer, `matrix` for the campaign, `disk_mib` and `memory_mib` for
    the nodes, `variables` for their inventory; `says` must stand in the outcome's reason.
    """

    name: str
    do: Callable[[S], Row]
    ends: tuple[tuple[str, str], ...]
    act: Mapping[str, str] = field(default_factory=dict)
    matrix: Mapping[str, Any] = field(default_factory=dict)
    says: str = ""
    disk_mib: int | None = None
    memory_mib: int | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)


def kill_program(number: int, program: str, what: int = signal.SIGKILL) -> Callable[[Stage], Row]:
    """Signal a node's first process with that word in its command line."""

    def do(stage: Stage) -> Row:
        node = stage.group.nodes[number]

        def strike() -> None:
            pids = [pid for pid, argv in node.processes() if program in " ".join(argv)]
            node.signal(pids[0], what)

        return stage.strike(strike)

    return do


def sshd_gone(stage: Stage) -> Row:
    node = stage.group.nodes[1]
    return stage.strike(node.kill_sshd, node.start_sshd)


def listener_gone(stage: Stage) -> Row:
    node = stage.group.nodes[1]
    return stage.strike(lambda: node.kill_sshd(sessions=False), node.start_sshd)


def link_down(stage: Stage) -> Row:
    node = stage.group.nodes[3]
    stage.start()
    node.link(False)
    took_s = max(stage.until_struck_ended(), 0.0)
    took_s += stage.until_clean(3)  # the cut-off node has to end its part by itself
    node.link(True)
    return stage.row(took_s)


def link_down_shortly(stage: Stage) -> Row:
    node = stage.group.nodes[3]
    stage.start()
    node.link(False)
    subprocess.run(["sleep", "2"], check=True)
    node.link(True)
    return stage.row(stage.until_struck_ended())


def node_gone(stage: Stage) -> Row:
    node = stage.group.nodes[2]
    return stage.strike(node.kill, node.boot)


def node_reboots(stage: Stage) -> Row:
    node = stage.group.nodes[2]
    return stage.strike(lambda: node.reboot(down_s=1.0))


def runner_killed(stage: Stage) -> Row:
    stage.start()
    assert stage.bench.process is not None
    os.kill(stage.bench.process.pid, signal.SIGKILL)
    stage.bench.finish()
    took_s = stage.until_clean()
    again = stage.bench.run("--again", "--only", "env=CELL:struck*", "--stop-after", "8")
    assert "stopped after --stop-after 8" in again.stderr, again.stderr
    return stage.row(took_s, attempt=2)


def ansible_killed(depth: int) -> Callable[[Stage], Row]:
    """Kill the play that bench started, or one of what that started."""

    def do(stage: Stage) -> Row:
        def strike() -> None:
            assert stage.bench.process is not None
            os.kill(descendants(stage.bench.process.pid)[depth], signal.SIGKILL)

        return stage.strike(strike)

    return do


def stopped(stage: Stage) -> Row:
    """`stop` ends what runs on the nodes, whoever's campaign it is."""

    def stop() -> None:
        where = ["-i", str(stage.group.inventory), "--runs", str(stage.folder / "others")]
        argv = [sys.executable, "-m", "runner", "stop", *where]
        ran = subprocess.run(argv, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        assert f"{stage.group.nodes[0].hostname}: a run was ended" in ran.stdout

    return stage.strike(stop)


def values(stage: Stage) -> Row:
    """What a shell or a template would run reaches the trainer as it is."""
    row = stage.by_itself()
    (log,) = stage.folder_of("struck").glob(f"nodes/0000-*/{names.LOG}")
    assert f"VALUE {EVIL!r}" in log.read_text()
    assert stage.group.nodes[0].exec(["ls", "/run/owned"]).returncode != 0
    assert not os.path.exists("/run/owned")
    return row


def control_busy(stage: Stage) -> Row:
    """All that bench started on the control machine, its connections too, does nothing for 30 s.

    That is the worst that a busy machine does: it swaps, or others have its processors.
    """
    stage.start()
    assert stage.bench.process is not None
    pids = [stage.bench.process.pid, *descendants(stage.bench.process.pid)]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(pid, signal.SIGSTOP)
    steps = stage.steps()
    subprocess.run(["sleep", f"{BUSY_S}"], check=True)
    assert stage.steps() == steps  # nothing was fetched meanwhile
    for pid in reversed(pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    return stage.row(stage.until_struck_ended())


def terminal_closed(stage: Stage) -> Row:
    """The terminal that bench was started in is closed: the window, or the connection to it."""
    terminal = stage.bench.start_in_terminal()
    stage.until_struck_trains()
    terminal.close()
    return stage.row(stage.until_struck_ended())


def ctrl_c(times: int) -> Callable[[Stage], Row]:
    def do(stage: Stage) -> Row:
        stage.start()
        assert stage.bench.process is not None
        for _ in range(times):
            os.kill(stage.bench.process.pid, signal.SIGINT)
            subprocess.run(["sleep", "0.2"], check=True)
        took_s = stage.until_clean()
        code, said = stage.bench.finish()
        assert code == 130, said
        return stage.row(took_s)

    return do


def port_taken(stage: Stage) -> Row:
    plans = json.loads(stage.bench.run("--dry-run", "--format", "json").stdout)
    argv = plans[1]["nodes"][0]["argv"]
    port = argv[argv.index("--master_port") + 1]
    serve = "import socket, sys, time; s = socket.create_server(('', int(sys.argv[1])))"
    busy = stage.group.nodes[0].popen([base_python(), "-c", f"{serve}; time.sleep(90)", port])
    try:
        return stage.by_itself()
    finally:
        busy.kill()
        busy.wait()


def before_only(stage: Stage) -> None:
    """Run the first cell alone: what comes then is between two benches."""
    done = stage.bench.run("--only", "env=CELL:before*")
    assert done.returncode == 0, done.stderr


def disk_full(stage: Stage) -> Row:
    node = stage.group.nodes[2]
    before_only(stage)
    node.fill_disk()
    try:
        stage.bench.start("--only", "env=CELL:struck*")
        took_s = stage.until_struck_ended()
        stage.bench.finish()
    finally:
        node.free_disk()
    return stage.row(took_s)


def control_disk_full(stage: Stage) -> Row:
    runs = stage.bench.runs
    runs.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(runs)]
    subprocess.run(mount, check=True)
    try:
        stage.start()
        with contextlib.suppress(OSError), (runs / "filler").open("wb", buffering=0) as filler:
            while filler.write(bytes(1 << 16)):
                pass
        code, said = stage.bench.finish(timeout=PATIENCE_S)
        assert code != 0, said
        assert "Traceback" not in said, said
        assert "No space left on device" in said, said
        took_s = stage.until_clean()
        subprocess.run(["mount", "-o", "remount,size=64m", str(runs)], check=True)
        row = stage.row(took_s)
        shutil.copytree(runs, stage.folder / "kept")
    finally:
        subprocess.run(["umount", "--lazy", str(runs)], check=True)
    return row


def dataset_truncated(stage: Stage) -> Row:
    node = stage.group.nodes[1]
    before_only(stage)
    path = f"{_root(stage)}/datasets/default/default_text_document.bin"
    node.exec(["truncate", "-s", "1999", path], check=True)
    try:
        stage.bench.start("--only", "env=CELL:struck*")
        took_s = stage.until_struck_ended()
        stage.bench.finish()
    finally:
        node.exec(["truncate", "-s", "2000", path], check=True)
    return stage.row(took_s)


def environment_differs(stage: Stage) -> Row:
    node = stage.group.nodes[1]
    before_only(stage)
    path = f"{_root(stage)}/systems/torch_gpt/{_pin(stage)}/installed.json"
    was = node.read(path)
    write = "import sys; open(sys.argv[1], 'w').write(sys.argv[2])"
    node.exec([base_python(), "-c", write, path, was.replace('"1"', '"2"')], check=True)
    refused = stage.bench.run()
    node.exec([base_python(), "-c", write, path, was], check=True)
    assert refused.returncode == 2, refused.stderr
    assert "on node2 differs from the one on node1" in refused.stderr
    row = stage.row(None)
    return Row(**{**vars(row), "status": "refused", "reason": refused.stderr.strip()})


def clock_offset(stage: Stage) -> Row:
    node = stage.group.nodes[1]
    late = f"{_root(stage)}/python-late"
    write = (
        "import os, sys; open(sys.argv[1], 'w').write(sys.argv[2]); os.chmod(sys.argv[1], 0o755)"
    )
    text = LATE.format(python=base_python())
    node.exec([base_python(), "-c", write, late, text], check=True)
    hosts = stage.group.inventory / "host_vars"
    hosts.mkdir()
    (hosts / "node2.yml").write_text(f"ansible_python_interpreter: {late}\n")
    row = stage.by_itself()
    prepared = next(stage.folder_of("struck").glob("nodes/0001-node2/prepared"))
    offset = float(json.loads(prepared.read_text())["clock_offset_s"])
    assert 3590 < offset < 3610
    return row


def two_benches(stage: Stage) -> Row:
    stage.start()
    same = stage.bench.run()
    assert same.returncode == 2, same.stderr
    assert "another bench runs campaign" in same.stderr
    cells = {
        "name": "other",
        "defaults": {"system": "torch_gpt", "devices_per_node": 1, "nodes": 4, "train_iters": 5},
    }
    other = Bench(stage.folder, stage.group.inventory, cells)
    in_use = other.run()
    assert in_use.returncode == 2, in_use.stderr
    assert "is in use by the campaign" in in_use.stderr
    refused = other.run_elsewhere()
    assert refused.returncode == 1, refused.stderr
    assert other.outcome("torch_gpt")["cause"] == "node_busy", refused.stderr
    return stage.row(stage.until_struck_ended())


def inventory_changed(stage: Stage) -> Row:
    """Change the inventory between a bench and its resume: refused, says what."""
    before_only(stage)
    path = next((stage.group.inventory / "group_vars").rglob("*.yml"))
    was = path.read_text()
    path.write_text(was.replace("cluster_devices_per_node: 2", "cluster_devices_per_node: 3"))
    assert path.read_text() != was
    refused = stage.bench.run()
    path.write_text(was)
    assert refused.returncode == 2, refused.stderr
    assert "the inventory" in refused.stderr
    assert "differs from the one that campaign" in refused.stderr
    row = stage.row(None)
    return Row(**{**vars(row), "status": "refused", "reason": refused.stderr.strip()})


def matrix_changed(stage: Stage) -> Row:
    """Change a cell of the matrix between a bench and its resume: what ran is kept, the changed
    cell is another one, and comes back with the matrix of before.
    """
    before_only(stage)
    path = stage.bench.matrix
    was = path.read_text()
    path.write_text(was.replace("CELL: before", "CELL: other"))
    assert path.read_text() != was
    grown = stage.bench.run("--only", "env=CELL:struck*", timeout=PATIENCE_S)
    assert grown.returncode == 0, grown.stderr
    assert "hidden: 1 run not in this matrix any more, 1 cell (env=CELL:before" in grown.stderr
    path.write_text(was)
    return stage.row(None)


def _root(stage: Stage) -> str:
    return str(stand_in.FOLDER)


def _pin(stage: Stage) -> str:
    return next((stand_in.FOLDER / "systems/torch_gpt").iterdir()).name


def once(stage: Stage) -> Row:
    """The stand-in does it by itself."""
    return stage.by_itself()


def _act(act: str, **more: str) -> dict[str, str]:
    return {"ACT": act, **more}


TWO = {"ACT_RANK": "2"}
FAILED = (("failed", "exit"),)
OK = (("ok", ""),)
LOST = (("node_lost", "node_lost"),)
LAUNCH = (("failed", "launch_error"),)
SLOW = {"STEP_S": "1"}  # what strikes it takes seconds to begin

FAULTS = (
    Fault("trainer killed on one rank", kill_program(2, "train.py"), FAILED, says="signal 9"),
    Fault("trainer segfaults", once, FAILED, _act("segfault", **TWO), says="signal 11"),
    Fault(
        "Python exception on one rank", once, FAILED, _act("exit_3", **TWO), says="ValueError"
    ),
    Fault(
        "one rank hangs", once, (("stalled", "stalled"),), _act("hang_one", **TWO),
        {"stall_limit_s": 4}, says="no node printed anything for 4 s",
    ),
    Fault(
        "all ranks hang, and ignore TERM", once, (("stalled", "stalled"),), _act("hang"),
        {"stall_limit_s": 4}, says="no node printed anything for 4 s",
    ),
    Fault("time limit", once, (("timed_out", "time_limit"),), {}, {"time_limit_s": 3}),
    Fault(
        "out of memory, by the kernel", once, FAILED, _act("eat", **TWO), memory_mib=600,
        says="lack of memory",
    ),
    Fault("link down for longer than lost_contact_s", link_down, LOST, says="node4"),
    Fault("link down for 2 s", link_down_shortly, OK),
    Fault("sshd gone, listener and sessions", sshd_gone, LOST, says="node2"),
    Fault("sshd's listener alone killed", listener_gone, OK),
    Fault("whole node gone", node_gone, LOST, says="node3"),
    Fault(
        "supervisor stopped (SIGSTOP)",
        kill_program(1, "supervisor.preparation", signal.SIGSTOP),
        OK,
    ),
    Fault(
        "node reboots midway", node_reboots, (*LOST, ("failed", "supervisor_lost")), says="node3"
    ),
    Fault(
        "supervisor killed",
        kill_program(1, "supervisor.preparation"),
        (("failed", "supervisor_lost"),),
    ),
    Fault("Ansible's play killed", ansible_killed(0), LAUNCH),
    Fault("the process with Ansible's connections killed", ansible_killed(1), LAUNCH),
    Fault("stop, from another folder of runs", stopped, (("interrupted", "stopped"),), SLOW),
    Fault("values that a shell would run", values, OK, _act("show", VALUE=EVIL)),
    Fault("bench killed, then bench again", runner_killed, (("interrupted", "interrupted"),)),
    Fault(
        "control machine busy for 30 s", control_busy, OK, _act("", STEP_S="0.7"),
        variables={"cluster_lost_contact_s": LOST_CONTACT_S},
    ),
    Fault("terminal closed", terminal_closed, OK),
    Fault("Ctrl-C once", ctrl_c(1), (("interrupted", "interrupted"),)),
    Fault("Ctrl-C twice", ctrl_c(2), (("interrupted", "interrupted"), ("none", ""))),
    Fault("port taken", port_taken, (("did_not_run", "port_in_use"),), says="is already in use"),
    Fault(
        "disk full on a node", disk_full, (("did_not_run", "disk_full"),), disk_mib=256,
        says="node3",
    ),
    Fault(
        "disk full on the control node", control_disk_full, (("none", ""), FAILED[0]),
        {"STEP_S": "0.25"},
    ),
    Fault(
        "dataset truncated on one node", dataset_truncated, (("did_not_run", "changed"),),
        says="node2",
    ),
    Fault("environment differs on one node", environment_differs, (("refused", ""),), says="node2"),
    Fault("a node's clock is an hour ahead", clock_offset, OK),
    Fault("trainer floods 1 GB of log", once, OK, _act("flood", FLOOD_MIB="1024")),
    Fault("log with binary rubbish", once, OK, _act("rubbish")),
    Fault("trainer forks a daemon", once, OK, _act("daemon")),
    Fault(
        "launcher dies, its child lives", once, FAILED, _act("orphan", **TWO), says="exit code 5"
    ),
    Fault("exit code 0 without a step", once, (("no_steps", "no_step"),), _act("no_step")),
    Fault("two benches at once", two_benches, OK, {"STEP_S": "0.6"}),
    Fault("inventory changes before the resume", inventory_changed, (("refused", ""),)),
    Fault("matrix changes before the resume", matrix_changed, OK),
)  # fmt: skip


def play(fault: Fault[S], stage: S, record: Callable[[str, object], None]) -> None:
    """Let the fault happen and end as it should; `record` gets its row of docs/reliability.md."""
    record("fault", fault.name)
    try:
        row = fault.do(stage)
    finally:
        stage.bench.kill()
        print(stage.bench.said()[-2000:])
    record("status", row.status)
    record("cause", row.cause)
    record("ended in s", "-" if row.took_s is None else f"{row.took_s:.1f}")
    record("next cell", row.after)
    assert (row.status, row.cause if row.status != "refused" else "") in fault.ends, row.reason
    assert fault.says in row.reason
    assert stage.left() == []
    assert (row.left, row.lost) == (0, 0)
    assert row.after.startswith("ok"), stage.outcome("after").get("reason")
