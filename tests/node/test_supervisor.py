"""The real supervisor, called as the launch plugin calls it, with this machine as the node."""

from __future__ import annotations

import ast
import base64
import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from plugins.program import command, message
from runner.base.paths import PROJECT
from runner.results import stall

SUPERVISOR = PROJECT / "node" / "supervisor"
PYTHON = [sys.executable, "-I", "-S"]
SH = "/bin/sh"
SLEEP = "exec sleep 1000"


def said(ran: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    lines = [line for line in ran.stdout.splitlines() if line.startswith("TRAINBENCH ")]
    assert len(lines) == 1, ran.stdout + ran.stderr
    answer: dict[str, Any] = json.loads(lines[0].removeprefix("TRAINBENCH "))
    return answer


def call(
    entry: str,
    spec: Mapping[str, Any],
    *,
    file: str = "",
    before: str = "",
    change: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    **environment: str,
) -> dict[str, Any]:
    """The answer of a supervisor that was sent, after the code `before`.

    `change` gives modules of it some more lines.
    """
    job = json.loads(message(f"supervisor.{entry}", spec, file))
    for name, text in (change or {}).items():
        job["sources"][f"node.supervisor.{name}"] += text
    _, boot, name = command(f"supervisor.{entry}")
    ran = subprocess.run(
        [*PYTHON, "-c", f"{before}\n{boot}", name],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        pass_fds=pass_fds,
    )
    return said(ran)


def wait(condition: Callable[[], object], timeout: float = 30.0) -> None:
    until = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < until, "what was waited for did not come"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    return not alive(pid)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


class Run:
    """One run on this node."""

    def __init__(self, runs: Path, script: str, **more: Any) -> None:
        self.id = more.pop("run_id", f"test/{uuid.uuid4().hex}/r1a1")
        self.dir = runs / self.id
        self.job: dict[str, Any] = {
            "run_id": self.id,
            "runs": str(runs),
            "dir": str(self.dir),
            "programs": str(runs / ".programs" / "0123.json"),
            "argv": [SH, "-c", script],
            "env": {"PATH": "/usr/bin:/bin"},
            "cwd": "/",
            "files": {},
            "requires": {},
            "ports": [],
            "device": "cpu",
            "device_ids": [0],
            "log_limit_bytes": 1 << 30,
            "time_limit_s": 60.0,
            "lease_s": 60.0,
            "grace_s": 1.0,
            **more,
        }
        self.offset = 0
        self.log = b""

    def prepare(self, **more: Any) -> dict[str, Any]:
        return call("preparation:prepare", self.job, **more)

    def ask(self, entry: str, **spec: Any) -> dict[str, Any]:
        file = str(self.dir / "modules.json")
        return call(entry, {"folder": str(self.dir), **spec}, file=file)

    def poll(
        self, *, go: bool = False, stop: str = "", wait_s: float = 0.0, over: bool = False
    ) -> dict[str, Any]:
        known = {"offset": self.offset, "sampled": 0, "arrived": 0}
        spec = {**known, "wait_s": wait_s, "lease_s": self.job["lease_s"]}
        answer = self.ask("polling:poll", **spec, go=go, stop=stop, over=over)
        data = zlib.decompress(base64.b64decode(answer["data"]))
        self.log += data
        self.offset = answer["offset"] + len(data)
        return answer

    def start(self) -> Run:
        """Prepare it and let it go."""
        assert "refused" not in self.prepare()
        self.poll(go=True)
        return self

    def done(self, **more: Any) -> dict[str, Any]:
        """Poll until it has ended."""
        for _ in range(10):
            if (answer := self.poll(wait_s=2.0, **more))["done"] is not None:
                found: dict[str, Any] = answer["done"]
                return found
        raise AssertionError(f"{self.id} did not end")

    def finish(self) -> dict[str, Any]:
        """Run it to its end."""
        return self.start().done()

    def wait_for_log(self, text: bytes) -> None:
        wait(
            lambda: (
                (self.dir / "launcher.log").exists()
                and text in (self.dir / "launcher.log").read_bytes()
            )
        )

    def ended(self) -> dict[str, Any]:
        """How it ended, without a poll that could help."""
        wait((self.dir / "done.json").exists)
        found: dict[str, Any] = json.loads((self.dir / "done.json").read_text())
        return found

    @property
    def daemon(self) -> int:
        return int(json.loads((self.dir / "state.json").read_text())["pid"])

    def clean(self) -> None:
        """Leave nothing of this run behind, whatever the test left running."""
        if not (self.dir / "state.json").exists() or (self.dir / "done.json").exists():
            return
        self.poll(stop="the test is over")
        self.done()


def stop_all(runs: Path) -> dict[str, Any]:
    return call("stopping:stop_all", {"runs": str(runs), "patience_s": 5.0})


Make = Callable[..., Run]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Run] = []

    def new(script: str = "true", **more: Any) -> Run:
        made.append(Run(tmp_path / "runs", script, **more))
        return made[-1]

    yield new
    for run in made:
        run.clean()


# --- how a run ends -------------------------------------------------------------------------------


def test_a_run_is_prepared_waits_for_go_runs_and_is_done(make: Make) -> None:
    run = make("echo out; echo err >&2; pwd; echo end")
    ready = run.prepare()
    assert "refused" not in ready
    assert ready["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert abs(ready["now"] - time.time()) < 5
    assert run.poll(wait_s=0.2)["done"] is None
    assert not (run.dir / "launcher.log").exists()
    run.poll(go=True)
    done = run.done()
    assert (done["ended_by"], done["rc"], done["signal"]) == ("exit", 0, None)
    assert (done["signalled"], done["left"], done["subreaper"]) == (0, 0, True)
    assert done["started_at"] <= done["ended_at"]
    assert run.log == b"out\nerr\n/\nend\n"
    assert not alive(run.daemon)


@pytest.mark.parametrize(
    ("script", "rc", "number"),
    [
        ("exit 3", 3, None),
        ("exit 255", 255, None),
        ("kill -KILL $$", None, signal.SIGKILL),
        ("kill -SEGV $$", None, signal.SIGSEGV),
        ("kill -TERM $$", None, signal.SIGTERM),
    ],
)
def test_exit_codes_and_signals_are_told(
    make: Make, script: str, rc: int | None, number: int | None
) -> None:
    done = make(script).finish()
    assert (done["ended_by"], done["rc"], done["signal"]) == ("exit", rc, number)


def test_a_program_that_cannot_be_started_is_exit_code_127_with_the_reason(
    make: Make, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF that is none")
    program.chmod(0o755)
    run = make(argv=[str(program)])
    assert run.finish()["rc"] == 127
    assert run.log.startswith(f"trainbench: cannot start {program}: ".encode())


def test_a_child_that_ignores_term_is_killed_after_the_grace(make: Make) -> None:
    run = make(f"(trap '' TERM; while :; do sleep 0.05; done) & echo $!; {SLEEP}").start()
    run.wait_for_log(b"\n")
    began = time.monotonic()
    done = run.done(stop="enough")
    assert time.monotonic() - began >= 1.0
    assert (done["ended_by"], done["message"], done["left"]) == ("stop", "enough", 0)
    assert done["signal"] == signal.SIGTERM
    assert not alive(int(run.log))


def test_a_launcher_may_end_well_within_the_grace(make: Make) -> None:
    run = make("trap 'echo saved; exit 7' TERM; echo up; while :; do sleep 0.05; done", grace_s=9)
    run.start().wait_for_log(b"up")
    done = run.done(stop="enough")
    assert (done["ended_by"], done["rc"]) == ("stop", 7)
    assert run.log.endswith(b"saved\n")


# The supervisor's look for what is left to end takes until the launcher has ended.
LONG_LOOK = """
looks = []
_ours = ours

def ours(mark, root):
    found = _ours(mark, root)
    while looks and found:
        time.sleep(0.01)
        found = _ours(mark, root)
    looks.append(found)
    return found
"""


def test_a_launcher_that_ends_while_it_is_looked_for_has_its_exit_status(make: Make) -> None:
    saves = '(trap "" TERM; exec sleep 0.3); exit 7'
    run = make(f"trap '{saves}' TERM; echo up; while :; do sleep 0.05; done", grace_s=9)
    assert "refused" not in run.prepare(change={"processes": LONG_LOOK})
    run.poll(go=True)
    run.wait_for_log(b"up")
    assert run.done(stop="enough")["rc"] == 7


def test_a_daemonised_child_with_an_empty_environment_is_ended(make: Make, tmp_path: Path) -> None:
    """Forked twice, in a session of its own, without our mark: only the subreaper finds it."""
    pid = tmp_path / "pid"
    begun = f"until [ -s {pid} ]; do sleep 0.02; done"
    run = make(f"(setsid env -i /bin/sh -c 'echo $$ > {pid}; exec sleep 1000' &) ; {begun}")
    done = run.finish()
    assert (done["ended_by"], done["rc"], done["left"]) == ("exit", 0, 0)
    assert done["signalled"] == 1
    assert not alive(int(pid.read_text()))


def test_processes_that_are_not_ours_are_never_touched(make: Make) -> None:
    """The same program, a mark that begins with ours, another run: all live on."""
    run = make(f"sleep 1000 & {SLEEP}")
    marks = [{}, {"PYTHON_TRAINBENCH_RUN": f"{run.id}2"}, {"OTHER": f"TRAINBENCH_RUN={run.id}"}]
    foreign = [subprocess.Popen(["sleep", "1000"], env={**os.environ, **mark}) for mark in marks]
    try:
        run.start()
        assert run.done(stop="enough")["signalled"] >= 2
        assert [process.poll() for process in foreign] == [None, None, None]
    finally:
        for process in foreign:
            process.kill()
            process.wait()


def test_a_marked_process_elsewhere_is_ended_with_the_run(make: Make) -> None:
    """As one that a launcher starts over ssh to itself: no descendant, but it has the mark."""
    run = make("true")
    run.prepare()
    mark = {"PYTHON_TRAINBENCH_RUN": json.loads((run.dir / "job.json").read_text())["mark"]}
    other = subprocess.Popen(["sleep", "1000"], env={**os.environ, **mark})
    run.poll(go=True)
    assert run.done()["signalled"] == 1
    assert other.wait(60) == -signal.SIGTERM


def test_a_lease_that_nobody_renews_ends_the_run(make: Make) -> None:
    run = make(f"sleep 1000 & echo $!; {SLEEP}", lease_s=4.0).start()
    for _ in range(5):  # renewed in time, it goes on
        time.sleep(1.0)
        assert run.poll()["done"] is None
    assert run.ended()["ended_by"] == "lease"
    assert not alive(int((run.dir / "launcher.log").read_text()))


@pytest.mark.parametrize("ours", [False, True], ids=["its pid is another's", "it does not end"])
def test_a_sampler_that_seems_to_live_on_holds_nothing_up(make: Make, ours: bool) -> None:
    """In place of the sampler: a process of ours, seen as a zombie where it was killed."""
    run = make("echo end")
    other = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        started = int(Path(f"/proc/{other.pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
        seen = {other.pid: started if ours else started - 100}
        run.prepare(change={"daemon": f"\nspawn_sampler = lambda job: {seen!r}\n"})
        run.poll(go=True)
        done = run.done()
        assert (done["ended_by"], done["rc"], done["left"]) == ("exit", 0, 0)
        assert alive(other.pid) != ours
    finally:
        other.kill()
        other.wait()


def test_a_run_that_is_being_stopped_is_not_renewed(make: Make) -> None:
    """A bench that waits for the node would take it for one that goes on."""
    run = make(f"trap '' TERM; echo up; {SLEEP}", grace_s=0.5).start()
    run.wait_for_log(b"up")
    lease = run.dir / "lease"
    before = lease.stat().st_mtime_ns
    run.poll(stop="enough")
    assert lease.stat().st_mtime_ns == before
    assert run.done(stop="enough")["ended_by"] == "stop"
    assert lease.stat().st_mtime_ns == before


def test_a_poll_says_how_long_the_run_goes_on_without_another_one(make: Make) -> None:
    """As a control machine does that has become slow; and the other way round."""
    run = make(SLEEP, lease_s=4.0).start()
    run.job["lease_s"] = 60.0
    run.poll()
    time.sleep(5.0)
    run.job["lease_s"] = 1.0
    assert run.poll()["done"] is None
    done = run.ended()
    assert (done["ended_by"], done["wall_s"] > 5.0) == ("lease", True)
    assert "for 1 s" in done["message"]


def test_a_lease_is_renewed_before_the_wait_of_a_poll_alone(make: Make) -> None:
    """The last poll of a bench that is gone would be taken for a living one's."""
    run = make(SLEEP).start()
    before = (run.dir / "lease").stat().st_mtime_ns
    began = time.time_ns()
    run.poll(wait_s=1.0)
    renewed = (run.dir / "lease").stat().st_mtime_ns
    assert before < renewed < began + 900_000_000
    run.done(stop="enough")


def test_a_lease_that_runs_out_before_go_starts_nothing(make: Make) -> None:
    run = make("echo started", lease_s=0.3)
    run.prepare()
    assert run.ended()["ended_by"] == "lease"
    done = run.poll(go=True)["done"]
    assert done["ended_by"] == "lease"
    assert re.fullmatch(
        r"the node ended .* control node for \S+ s \(lost_contact_s\)", done["message"]
    )
    assert not (run.dir / "launcher.log").exists()


def test_a_run_is_ended_at_its_time_limit(make: Make) -> None:
    done = make(SLEEP, time_limit_s=0.3).finish()
    assert (done["ended_by"], done["rc"], done["signal"]) == ("time_limit", None, signal.SIGTERM)
    assert done["message"] == "the run reached time_limit_s, 0.3 s"
    assert done["wall_s"] >= 0.3


def test_a_run_can_be_stopped_before_go(make: Make) -> None:
    run = make("echo started")
    run.prepare()
    assert run.done(stop="other node failed")["message"] == "other node failed"
    assert not (run.dir / "launcher.log").exists()


def test_a_supervisor_that_is_sent_term_ends_its_run(make: Make) -> None:
    run = make(SLEEP).start()
    os.kill(run.daemon, signal.SIGTERM)
    done = run.ended()
    assert (done["ended_by"], done["left"]) == ("stop", 0)
    assert done["message"] == "the supervisor was sent TERM"


def test_a_node_whose_processes_another_starts_waits_and_ends_what_has_the_mark(
    make: Make,
) -> None:
    """As with the deepspeed launcher: the first node's starts these over ssh."""
    mark = uuid.uuid4().hex
    run = make(argv=[], mark=mark)
    assert "refused" not in run.prepare()
    assert run.poll(go=True, wait_s=0.3)["done"] is None
    other = subprocess.Popen(["sleep", "1000"], env={**os.environ, "PYTHON_TRAINBENCH_RUN": mark})
    try:
        assert run.poll(wait_s=0.2)["done"] is None
        run.poll(over=True)
        done = run.done()
        assert (done["ended_by"], done["rc"], done["left"]) == ("exit", 0, 0)
        assert other.wait(5) == -15
    finally:
        other.kill()


def test_after_sigkill_of_the_supervisor_a_poll_cleans_by_the_mark(make: Make) -> None:
    for _ in range(20):  # a run that another worker prepares meanwhile ends these, too
        run = make(f"setsid sleep 1000 & echo $! $$; {SLEEP}").start()
        run.wait_for_log(b"\n")
        os.kill(run.daemon, signal.SIGKILL)
        wait(partial(gone, run.daemon))
        done = run.done()
        if done["signalled"] == 3:  # the shell, its child, the sampler
            break
    assert (done["ended_by"], done["signalled"], done["left"]) == ("supervisor_lost", 3, 0)
    assert not any(alive(int(pid)) for pid in run.log.split())
    assert run.poll()["done"] == done


def test_all_runs_of_a_node_can_be_stopped_at_once(make: Make, tmp_path: Path) -> None:
    run = make(SLEEP).start()
    answer = stop_all(tmp_path / "runs")
    assert [entry["dir"] for entry in answer["ended"]] == [str(run.dir)]
    assert answer["ended"][0]["done"]["ended_by"] == "stop"
    assert stop_all(tmp_path / "runs")["ended"] == []
    assert stop_all(tmp_path / "none")["ended"] == []


def test_a_supervisor_that_was_stopped_goes_on_with_the_next_poll(make: Make) -> None:
    """Issue 34: one in state T held its node for ever."""
    run = make("echo begun; sleep 0.5; echo ended").start()
    os.kill(run.daemon, signal.SIGSTOP)
    done = run.done()
    assert (done["ended_by"], done["rc"]) == ("exit", 0)


def test_stop_ends_a_supervisor_that_does_not_end(make: Make, tmp_path: Path) -> None:
    """One that a debugger, or a frozen control group, keeps from ending: here it is deaf."""
    run = make(SLEEP)
    deaf = "\ndef stop_reason():\n    return None\n"
    assert "refused" not in run.prepare(change={"state": deaf})
    run.poll(go=True)
    answer = stop_all(tmp_path / "runs")
    assert answer["ended"][0]["done"]["ended_by"] == "supervisor_lost"
    wait(partial(gone, run.daemon))


def test_a_node_is_taken_from_a_run_whose_supervisor_was_stopped(make: Make) -> None:
    first = make(SLEEP, lease_s=3.0, grace_s=0.5).start()
    os.kill(first.daemon, signal.SIGSTOP)
    second = make("true", lease_s=3.0, grace_s=0.5)
    assert second.finish()["ended_by"] == "exit"
    assert first.ended()["ended_by"] == "lease"


# --- what is refused before anything starts -------------------------------------------------------


def test_what_is_missing_is_refused_by_name(make: Make, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("1234")
    for more, cause, words in (
        ({"argv": ["/no/python3"]}, "missing", "/no/python3 cannot be executed; copy it"),
        ({"argv": [str(plain)]}, "missing", f"{plain} cannot be executed; run setup again"),
        ({"argv": ["no-python"]}, "missing", "no-python is not on this node's PATH"),
        ({"argv": ["./plain"], "cwd": str(tmp_path)}, "missing", f"{plain} cannot be executed"),
        ({"cwd": "/no/folder"}, "missing", "working directory /no/folder does not exist"),
        ({"requires": {"/no/train.py": None}}, "missing", "/no/train.py is missing"),
        ({"requires": {str(plain): 5}}, "changed", "has 4 bytes, not 5 as setup recorded"),
    ):
        run = make(**more)
        answer = run.prepare()
        assert answer["refused"] == cause
        assert words in answer["message"]
        assert not run.dir.exists()
    fits = make(requires={str(plain): 4, "/bin/sh": None}, argv=["./sh"], cwd="/bin")
    assert "refused" not in fits.prepare()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_port_in_use_is_refused_by_number(make: Make, address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        server = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {address}")
    with server:
        port = server.getsockname()[1]
        answer = make(ports=[port]).prepare()
        assert (answer["refused"], answer["message"]) == (
            "port_in_use",
            f"port {port} is already in use",
        )
    assert "refused" not in make(ports=[port]).prepare()


def test_a_busy_node_names_who_holds_it_and_is_free_again_afterwards(make: Make) -> None:
    holder = make(SLEEP).start()
    late = make("true", lease_s=3.0, grace_s=0.1)
    answer = late.prepare()
    assert answer["refused"] == "node_busy"
    assert holder.id in answer["message"]
    assert "`trainbench stop`" in answer["message"]
    assert holder.poll()["done"] is None
    holder.done(stop="enough")
    assert "refused" not in late.prepare()  # the refused try of the same name is no hindrance
    late.poll(go=True)
    done = late.done()
    assert done["rc"] == 0, done


def test_a_run_of_the_same_name_that_goes_on_is_left_alone(make: Make) -> None:
    run = make(SLEEP).start()
    answer = make("true", run_id=run.id).prepare()
    assert answer["refused"] == "node_busy"
    assert f"a run of the same name goes on in {run.dir}" in answer["message"]
    assert run.poll()["done"] is None


def test_what_an_ended_run_of_the_same_name_left_is_cleared(make: Make) -> None:
    first = make("echo one")
    first.finish()
    (first.dir / "rubbish").write_text("x")
    second = make("echo two", run_id=first.id)
    second.finish()
    assert second.log == b"two\n"
    assert not (second.dir / "rubbish").exists()


def test_a_folder_that_is_no_runs_is_never_removed(make: Make) -> None:
    run = make()
    run.dir.mkdir(parents=True)
    (run.dir / "mine").write_text("x")
    answer = run.prepare()
    assert answer["refused"] == "exists"
    assert (run.dir / "mine").read_text() == "x"


def test_runs_that_cannot_be_written_are_refused(make: Make, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    answer = make().prepare()
    assert answer["refused"] == "io_error"
    assert "cannot prepare" in answer["message"]


@pytest.mark.parametrize("root", [1, 0, -1])
def test_nobody_claims_the_processes_of_init(root: int) -> None:
    text = (
        f"import sys; sys.path.insert(0, {str(PROJECT)!r})\n"
        f"from node.supervisor.processes import ours\ntry:\n    ours('x', {root})\n"
        "except ValueError as error:\n    print(error)\n"
    )
    ran = subprocess.run([*PYTHON, "-"], input=text, capture_output=True, text=True)
    assert ran.stdout == f"a root of {root} would claim processes that are not ours\n"


# --- what the launcher gets -----------------------------------------------------------------------

EVIL = "a 'b' \"c\" $(touch owned) `id` ${HOME} {{ x }} \\ \t✓\nsecond line"


def test_argv_and_environment_arrive_as_they_are_and_nothing_is_inherited(
    make: Make, tmp_path: Path
) -> None:
    show = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]))"
    run = make(
        argv=[sys.executable, "-I", "-S", "-c", show, "", EVIL, "*"],
        env={"PATH": "/mine", "EVIL": EVIL, "LANG": "C.UTF-8"},
        cwd=str(tmp_path),
    )
    assert "refused" not in run.prepare(SECRET_OF_THE_SESSION="x", HOME="/home/me", USER="me")
    run.poll(go=True)
    assert run.done()["rc"] == 0
    argv, env, cwd = json.loads(run.log)
    assert argv == ["", EVIL, "*"]
    assert cwd == str(tmp_path)
    base = ("HOME", "USER", "LOGNAME", "LC_ALL", "TMPDIR", "XDG_RUNTIME_DIR", "LC_CTYPE")
    ours = {name: text for name, text in env.items() if name not in base}
    mark = {"PYTHON_TRAINBENCH_RUN": json.loads((run.dir / "job.json").read_text())["mark"]}
    assert mark["PYTHON_TRAINBENCH_RUN"].startswith(f"{run.dir}#")  # of this run, on this node
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert re.fullmatch(rf"{boot_id}/\d+/\d+:\d+", ours.pop("TRAINBENCH_SUPERVISOR"))
    assert ours == {"PATH": "/mine", "EVIL": EVIL, "LANG": "C.UTF-8", **mark}
    assert (env["HOME"], env["USER"]) == ("/home/me", "me")
    assert not (tmp_path / "owned").exists()


def test_the_launcher_has_no_open_files_but_the_standard_three(make: Make) -> None:
    """Even if the connection that brought the supervisor left one open to it."""
    show = (
        "import os; print([os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')"
    )
    show += " if n in '012' or os.path.exists(f'/proc/self/fd/{n}')])"
    run = make(argv=[*PYTHON, "-c", show])
    hear, tell = os.pipe()
    assert "refused" not in run.prepare(pass_fds=(tell,))
    run.poll(go=True)
    assert run.done()["rc"] == 0
    log = str(run.dir / "launcher.log")
    assert ast.literal_eval(run.log.decode()) == ["/dev/null", log, log]
    os.close(tell)
    assert os.read(hear, 1) == b""
    os.close(hear)


def test_the_launcher_leads_a_session_of_its_own(make: Make) -> None:
    """Signals to a terminal's session, or a hang-up, are none of its business."""
    run = make('read -r line < /proc/$$/stat; set -- $line; echo "$6" "$$"')
    run.finish()
    session, pid = run.log.split()
    assert session == pid


def test_files_of_a_run_are_written_into_its_folder(make: Make) -> None:
    run = make(files={"config.json": EVIL})
    run.finish()
    assert (run.dir / "config.json").read_text(encoding="utf-8") == EVIL


def test_nobody_else_can_read_what_a_run_left(make: Make, tmp_path: Path) -> None:
    run = make("umask", files={"config.json": "{}"})
    old = os.umask(0)
    try:
        run.finish()
    finally:
        os.umask(old)
    assert run.log == b"0022\n"  # what a trainer writes elsewhere is its own to change
    assert (tmp_path / "runs").stat().st_mode & 0o777 == 0o700
    assert run.dir.stat().st_mode & 0o777 == 0o700
    files = {path.name: path.stat().st_mode & 0o777 for path in run.dir.iterdir()}
    assert set(files) >= {
        "job.json",
        "state.json",
        "lease",
        "launcher.log",
        "done.json",
        "config.json",
    }
    assert {name for name, mode in files.items() if mode & 0o077} == set()
    assert (tmp_path / "runs" / f"lock-{socket.gethostname()}").stat().st_mode & 0o777 == 0o600
    assert not (run.dir / "reserve").exists()


def test_a_node_whose_folder_of_runs_is_open_is_refused_with_the_cure(
    make: Make, tmp_path: Path
) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs").chmod(0o777)
    refused = make("true").prepare()
    assert (refused["refused"], "chmod o-w" in refused["message"]) == ("io_error", True)


def test_programs_that_were_left_on_a_node_before_are_not_what_runs(
    make: Make, tmp_path: Path
) -> None:
    left = tmp_path / "runs" / ".programs" / "0123.json"
    left.parent.mkdir(parents=True)
    left.parent.parent.chmod(0o700)
    left.write_text(json.dumps({"node.bootstrap": "raise SystemExit('theirs')"}))
    run = make("true")
    assert run.finish()["rc"] == 0
    assert "raise SystemExit('theirs')" not in left.read_text()


def test_a_secret_in_the_environment_is_in_nobodys_command_line(make: Make) -> None:
    secret = f"secret-{uuid.uuid4().hex}"
    run = make(SLEEP, env={"PATH": "/usr/bin:/bin", "TOKEN": secret})
    entry = "supervisor.preparation:prepare"
    argv = [*PYTHON, *command(entry)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(message(entry, run.job).encode())
    process.stdin.close()
    seen = set()
    while process.poll() is None:
        seen |= command_lines()
    assert process.stdout is not None
    process.stdout.close()
    run.poll(go=True)
    for _ in range(3):
        run.poll(wait_s=0.05)
        seen |= command_lines()
    assert any(b"sleep" in line for line in seen)
    assert not [line for line in seen if secret.encode() in line]


def command_lines() -> set[bytes]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.add(path.read_bytes())
        except OSError:
            continue
    return found


# --- the log --------------------------------------------------------------------------------------


def fetched(run: Run, size: int, step: int) -> bytes:
    """The whole log through fetch, a piece at a time."""
    data = b""
    while len(data) < size:
        answer = run.ask("polling:fetch", name="launcher.log", offset=len(data), length=step)
        data += zlib.decompress(base64.b64decode(answer["data"]))
    return data


def test_more_log_than_a_poll_brings_is_skipped_and_fetched_later(make: Make) -> None:
    run = make("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done")
    assert run.finish()["rc"] == 0
    whole = b"".join(b"line %d\n" % n for n in range(20000))
    assert len(whole) > 3 * 65536
    run.offset, run.log = 0, b""
    answer = run.poll()
    assert (answer["size"], answer["offset"]) == (len(whole), len(whole) - 65536)
    assert run.log == whole[-65536:]
    assert fetched(run, len(whole), 100_000) == whole
    assert (
        run.poll()["data"]
        == run.ask("polling:fetch", name="launcher.log", offset=999999, length=9)["data"]
    )


def test_any_byte_survives_the_way_back(make: Make, tmp_path: Path) -> None:
    data = bytes(range(256)) * 20 + b"\r\n\n\xffTRAINBENCH {}\n"
    (tmp_path / "data").write_bytes(data)
    run = make(f"cat {shlex.quote(str(tmp_path / 'data'))}")
    run.finish()
    assert run.log == data


def test_polls_bring_every_byte_once_while_it_runs(make: Make) -> None:
    run = make("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.05; done").start()
    while run.poll(wait_s=0.02)["done"] is None:
        pass
    run.poll()
    assert run.log == b"1\n2\n3\n4\n5\n6\n7\n8\n"


# --- the rest -------------------------------------------------------------------------------------


def test_a_node_tells_what_it_is_and_has(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"x": 1}')
    (tmp_path / "bad.json").write_text("{")
    paths = {name: str(tmp_path / f"{name}.json") for name in ("a", "bad", "none")}
    facts = call("inspection:inspect", {"paths": paths})
    assert facts["files"] == {"a": {"x": 1}, "bad": None, "none": None}
    assert facts["hostname"] == socket.gethostname()
    assert facts["cpu_count"] == len(os.sched_getaffinity(0))
    assert facts["memory_mib"] > 0
    assert isinstance(facts["devices"], list)


# --- stalls, floods, memory -------------------------------------------------------------------


# A launcher that starts two ranks and ends when one of them does, as torchrun's agent.
LAUNCHER = """
import os, subprocess, sys, time
def waits_for_ever():
    print("up", flush=True)
    time.sleep(99)
if "RANK" in os.environ:
    waits_for_ever()
ranks = [
    subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "RANK": str(rank)})
    for rank in range(2)
]
while all(rank.poll() is None for rank in ranks):
    time.sleep(0.01)
for rank in ranks:
    rank.terminate()
"""
FAULTHANDLER = {"PATH": "/usr/bin:/bin", "PYTHONFAULTHANDLER": "1"}


def stalled(run: Run, tmp_path: Path, *, stop_rank: int | None = None) -> dict[str, Any]:
    """Start the two ranks, stop one of them, and end the run as stalled; done.json."""
    program = tmp_path / "launcher.py"
    program.write_text(LAUNCHER)
    run.job["argv"] = [sys.executable, str(program)]
    run.start()
    log = run.dir / "launcher.log"
    wait(lambda: log.exists() and log.read_bytes().count(b"up") == 2)
    if stop_rank is not None:
        os.kill(rank_pids(run)[stop_rank], signal.SIGSTOP)
    run.poll(stop="stalled")
    return run.done()


def rank_pids(run: Run) -> dict[int, int]:
    """Rank to pid, of the processes that carry the run's mark and a rank."""
    mark = json.loads((run.dir / "job.json").read_text())["mark"]
    found = {}
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode("utf-8", "replace").split("\0")
            variables = dict(word.split("=", 1) for word in words if "=" in word)
            if variables.get("PYTHON_TRAINBENCH_RUN") == mark and "RANK" in variables:
                found[int(variables["RANK"])] = int(path.parent.name)
    return found


def test_every_rank_of_a_stalled_run_writes_where_it_stands(make: Make, tmp_path: Path) -> None:
    """No py-spy here: Python's own faulthandler, at ABRT, into the log; of a stopped rank, too.

    The launcher is held until both have: it would end the second when the first is dead.
    """
    run = make("", env=FAULTHANDLER)
    done = stalled(run, tmp_path, stop_rank=1)
    assert (done["ended_by"], done["message"], done["left"]) == ("stop", "stalled", 0)
    *ranks_stood, launcher = ((one["rank"], one["state"]) for one in done["stood"])
    assert ranks_stood == [(0, "S"), (1, "T")]
    assert launcher[0] is None  # asleep, or just being held
    text = (run.dir / "launcher.log").read_text()
    assert text.count("in waits_for_ever") == 2
    ranks = stall.read_stacks("n1", text)
    assert [(one.rank, one.held) for one in ranks] == [(0, ""), (1, "stopped")]
    assert all(one.frame.endswith("in waits_for_ever") for one in ranks)
    assert stall.waited_for(ranks) == "the others waited for rank 1 (n1), which was stopped"


def test_py_spy_of_the_environment_writes_the_stacks(make: Make, tmp_path: Path) -> None:
    """A stand-in for py-spy: what is proved is who is asked, and where the answer lies."""
    (tmp_path / "bin").mkdir()
    spy = tmp_path / "bin" / "py-spy"
    spy.write_text('#!/bin/sh\necho "stack of $4"\n')
    spy.chmod(0o755)
    python = tmp_path / "bin" / "python3"
    python.symlink_to(sys.executable)
    script = "import time; print('up', flush=True); time.sleep(99)"
    run = make("", argv=[str(python), "-c", script], env=FAULTHANDLER).start()
    run.wait_for_log(b"up")
    run.poll(stop="stalled")
    done = run.done()
    pid = done["stood"][0]["pid"]
    assert f"pid {pid}, stood at:]\nstack of {pid}\n" in (run.dir / "stacks.txt").read_text()
    assert b"Fatal Python error" not in (run.dir / "launcher.log").read_bytes()
    assert run.poll()["files"]["stacks.txt"] == (run.dir / "stacks.txt").stat().st_size
    fetched = run.ask("polling:fetch", name="stacks.txt", offset=0, length=100)
    assert zlib.decompress(base64.b64decode(fetched["data"])).startswith(b"[trainbench: pid")


@pytest.mark.parametrize("before", ["", "import select; select.select = None"])
def test_a_log_beyond_its_limit_ends_the_run(make: Make, before: str) -> None:
    """Also where what notes its arrivals has died."""
    run = make("while :; do echo 0123456789; done", log_limit_bytes=100_000)
    run.prepare(before=before)
    run.poll(go=True)
    done = run.done()
    assert (done["ended_by"], done["left"]) == ("log_limit", 0)
    trouble = run.dir / "supervisor.log"
    assert bool(before) == (trouble.exists() and "TypeError" in trouble.read_text())


def test_the_sampler_is_no_part_of_the_run(make: Make) -> None:
    """It is ended with the run, and is not counted among the processes that had to be."""
    done = make("sleep 1.5").finish()
    assert (done["ended_by"], done["signalled"], done["left"]) == ("exit", 0, 0)
    assert isinstance(done["oom_kills"], int)  # of the whole machine


def free_blocks(count: int) -> str:
    """Code by which every disk has so many free blocks of 4 KiB."""
    fields = {"f_blocks": 100_000, "f_bavail": count, "f_frsize": 4096, "f_files": 0, "f_favail": 0}
    return f"import os; os.statvfs = lambda path: type('S', (), {fields})"


def test_a_disk_without_room_is_refused(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make("true")
    refused = run.prepare(before=free_blocks(100))
    assert refused["refused"] == "disk_full"
    assert "only 0 MiB are free on the disk of" in refused["message"]


def test_a_log_may_take_half_of_the_free_disk(make: Make) -> None:
    """A flood on a small disk ends its run, and fills the disk of nobody."""
    run = make("while :; do echo 0123456789012345678901234567890123456789; done")
    assert "refused" not in run.prepare(before=free_blocks(17000))
    run.poll(go=True)
    done = run.done()
    assert (done["ended_by"], done["left"]) == ("log_limit", 0)
    assert done["message"] == (
        "the log outgrew its limit of 33 MiB (4 GiB, or half of the free disk)"
    )


# --- what is fetched, kept, removed ---------------------------------------------------------------


def test_event_files_of_the_folder_can_be_fetched_and_nothing_beyond(
    make: Make, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    for name in ("tfevents.secret", "outside/tfevents.1"):
        (tmp_path / name).write_text("not yours")
    run = make("sleep 0.1").start()
    events = run.dir / "tensorboard" / "sub"
    events.mkdir(parents=True)
    (events / "events.out.tfevents.1.host").write_bytes(b"\0events")
    (events / "other").write_text("no event file")
    (events / "tfevents.link").symlink_to(tmp_path / "tfevents.secret")
    (run.dir / "tensorboard" / "linked").symlink_to(tmp_path / "outside")
    os.mkfifo(events / "tfevents.fifo")
    run.done()
    files = run.poll()["files"]
    files.pop("samples.csv", None)
    files.pop("arrivals")
    name = "tensorboard/sub/events.out.tfevents.1.host"
    assert files == {name: 7}

    def fetched(name: str) -> bytes:
        answer = run.ask("polling:fetch", name=name, offset=0, length=100)
        return zlib.decompress(base64.b64decode(answer["data"]))

    assert fetched(name) == b"\0events"
    for other in ("tensorboard/sub/tfevents.link", "job.json", "../../lock", "/etc/passwd"):
        assert fetched(other) == b""
    (run.dir / "tensorboard").rename(run.dir / "moved")
    (run.dir / "tensorboard").symlink_to(tmp_path / "outside")
    assert name not in run.poll()["files"]
    assert fetched("tensorboard/tfevents.1") == b""


def test_traces_of_a_profiler_can_be_fetched_and_nothing_beyond(make: Make, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text("not yours")
    run = make("sleep 0.1").start()
    folder = run.dir / "profile" / "iteration_3"
    folder.mkdir(parents=True)
    (folder / "rank0_trace.json").write_text("{}")
    (folder / "notes.txt").write_text("no trace")
    (folder / "link.json").symlink_to(tmp_path / "secret.json")
    (run.dir / "node0.nsys-rep").write_text("report")
    (run.dir / "other.nsys-rep").symlink_to(tmp_path / "secret.json")
    with (run.dir / "profile" / "large.json").open("wb") as stream:
        stream.truncate(513 << 20)
    run.done()
    files = run.poll()["files"]
    files.pop("samples.csv", None)
    files.pop("arrivals")
    assert files == {"node0.nsys-rep": 6, "profile/iteration_3/rank0_trace.json": 2}
    answer = run.ask(
        "polling:fetch", name="profile/iteration_3/rank0_trace.json", offset=0, length=9
    )
    assert zlib.decompress(base64.b64decode(answer["data"])) == b"{}"


def test_more_event_files_than_are_fetched_are_left(make: Make) -> None:
    run = make("true").start()
    run.done()
    (run.dir / "tensorboard").mkdir()
    with (run.dir / "tensorboard" / "tfevents.a").open("wb") as stream:
        stream.truncate(65 << 20)
    for number in range(70):
        (run.dir / "tensorboard" / f"tfevents.b{number:02d}").write_bytes(b"x")
    files = [name for name in run.poll()["files"] if name.startswith("tensorboard/")]
    assert len(files) == 64
    assert "tensorboard/tfevents.a" not in files


def test_a_closed_folder_is_removed_with_what_is_empty_above_it(make: Make, tmp_path: Path) -> None:
    run, other = make("true", run_id="c/one/r1a1"), make("true", run_id="c/two/r1a1")
    for each in (run, other):
        each.finish()
    assert run.ask("run_folder:close", keep=False)["removed"] is True
    assert [path.name for path in (tmp_path / "runs" / "c").iterdir()] == ["two"]
    assert other.ask("run_folder:close", keep=True)["removed"] is False
    assert (other.dir / "launcher.log").exists()
    assert other.ask("run_folder:close", keep=False)["removed"] is True
    left = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert left == [".programs", f"lock-{socket.gethostname()}"]


def test_a_run_that_goes_on_is_not_removed(make: Make) -> None:
    run = make(SLEEP).start()
    assert run.ask("run_folder:close", keep=False)["removed"] is False
    run.poll(stop="test")
    assert run.done()["ended_by"] == "stop"


def test_of_kept_folders_the_newest_stay_and_those_that_nobody_fetched(
    make: Make, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"

    def left(name: str, *files: str, age_s: int = 0) -> Path:
        folder = runs / name
        folder.mkdir(parents=True)
        for file in ("job.json", "done.json", *files):
            (folder / file).write_text("{}")
        os.utime(folder / "done.json", (1e9 - age_s, 1e9 - age_s))
        return folder

    kept = [left(f"c/cell/r1a{n}", "fetched", age_s=n) for n in range(1, 26)]
    waiting = left("c/cell/r2a1", age_s=1000)
    running = left("c/cell/r2a2", "fetched", age_s=1000)
    (running / "done.json").unlink()
    others = left("other/cell/r1a1", "fetched", age_s=1000)
    somebody = left("c/cell/r3a1", "fetched", age_s=1000)
    if os.geteuid() == 0:
        os.chown(somebody, 65534, 65534)
    make("true", run_id="c/new/r1a1").finish()
    assert [path.exists() for path in kept] == [True] * 20 + [False] * 5
    assert waiting.exists()
    assert running.exists()
    assert others.exists()
    assert somebody.exists() == (os.geteuid() == 0)


# --- secrets --------------------------------------------------------------------------------------


def test_a_secret_reaches_the_trainer_and_no_file(make: Make) -> None:
    secret = f"secret-{uuid.uuid4().hex}"
    script = f'test "$HF_TOKEN" = {secret[:6]}"-"{secret[7:]} && echo given; exec sleep 1000'
    run = make(script, secrets={"HF_TOKEN": secret})
    run.job["argv"] = [SH, "-c", script.replace(secret[7:], '"$2"'), "sh", "", secret[7:]]
    run.start()
    run.wait_for_log(b"given")
    held = [path for path in run.dir.rglob("*") if path.is_file()]
    assert len(held) > 6
    assert not [path for path in held if secret.encode() in path.read_bytes()]
    run.poll(stop="test")
    run.done()


def test_what_a_dead_supervisor_left_is_ended_by_the_next_run(make: Make, tmp_path: Path) -> None:
    """Its trainer, and one that fled into another session; nothing of a run that goes on."""
    words = r"an earlier run or attempt left processes here, [2-4] without their supervisor: "
    words += r"pid \d+ \(.+\) of \S+, [\d.]+ s old; they were ended"
    for _ in range(3):  # a run of another test's, on this machine, may be the next one, too
        lost, going = make(f"setsid sleep 1000 & echo $! $$; {SLEEP}"), make(f"echo $$; {SLEEP}")
        lost.start().wait_for_log(b"\n")
        os.kill(json.loads((lost.dir / "state.json").read_text())["pid"], signal.SIGKILL)
        left = [int(pid) for pid in (lost.dir / "launcher.log").read_text().split()]
        assert len(left) == 2
        said = going.prepare()["noted"]
        assert not any(map(alive, left))
        if any(re.fullmatch(words, one) for one in said):
            break
        going.poll(stop="test")  # it holds the node's lock
        going.done()
    else:
        pytest.fail(f"nothing was said of what was ended: {said}")
    going.poll(go=True)
    going.wait_for_log(b"\n")
    other = make("true")
    other.job["runs"] = str(tmp_path / "other")  # another root, where another lock holds the node
    assert not [one for one in other.prepare()["noted"] if "older run" in one]
    assert alive(int((going.dir / "launcher.log").read_text()))


def test_when_the_logs_bytes_arrived_is_noted_and_brought(make: Make) -> None:
    """Also of a run that nobody polls: bench was killed."""
    run = make("for n in 0 1 2 3; do echo step $n; sleep 0.25; done").start()
    deadline = time.monotonic() + 20
    while not (run.dir / "done.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    lines = (run.dir / "arrivals").read_text().splitlines()
    entries = [[float(word) for word in line.split()] for line in lines[1:]]
    assert [size for _, size, *_ in entries] == [7, 14, 21, 28]
    steps = [after[0] - before[0] for before, after in pairwise(entries)]
    assert all(245 <= step <= 400 for step in steps), steps
    answer = run.poll()
    brought = zlib.decompress(base64.b64decode(answer["arrivals"]))
    assert brought == (run.dir / "arrivals").read_bytes()
    assert answer["files"]["arrivals"] == len(brought)
