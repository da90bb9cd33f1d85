"""A node that answers as an attacker chooses: each way by name, and how it ends for the campaign.

Run as a program it stands in for a node's Python (`ansible_python_interpreter`): what the control
node sends is run by the real one, but for the program whose answer a way replaces. The way's name
is the variable WAY of the run, or for what no run asks the text of the file `way` beside this one.
The standard library alone, Python 3.8. docs/security.md has the table, written from WAYS.
"""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import sys
import time
import zlib
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NamedTuple

    Act = Callable[[Any], Iterator[bytes]]

    class Way(NamedTuple):
        """One way: the program, what it answers, how that ends (a cause, ok or refused)."""

        program: str
        says: str
        ends: str
        act: Act
else:
    from collections import namedtuple

    Way = namedtuple("Way", "program says ends act")

SIGN = b"TRAINBENCH "
INSPECT, FACTS = "supervisor.inspection:inspect", "facts.record:read"
PREPARE, POLL = "supervisor.preparation:prepare", "supervisor.polling:poll"
FETCH, CLOSE = "supervisor.polling:fetch", "supervisor.run_folder:close"
ESCAPE = "\x1b[2J\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x9b31m\u202e"
DEEP = "[" * 100_000
DIGITS = "9" * 400
WAYS: dict[str, Way] = {}


def line(text: str | bytes) -> bytes:
    """Return the line that is an answer, of a text that may be no JSON."""
    return SIGN + (text if isinstance(text, bytes) else text.encode("utf-8", "replace")) + b"\n"


def zeros(mib: int) -> Callable[[], str]:
    """Return what makes a packed text of so many MiB of zeros: a thousandth of them."""
    return lambda: pack(bytes(mib << 20))


def pack(data: bytes) -> str:
    """Pack as the supervisor does."""
    return base64.b64encode(zlib.compress(data, 9)).decode()


def way(name: str, program: str, says: str, act: Act, ends: str = "bad_answer") -> None:
    """Add a way."""
    assert name not in WAYS
    WAYS[name] = Way(program, says, ends, act)


def text(
    name: str, program: str, says: str, content: str | bytes, ends: str = "bad_answer"
) -> None:
    """Add a way whose answer is this text, JSON or not."""
    way(name, program, says, lambda honest: iter([line(content)]), ends)


def fields(name: str, program: str, says: str, ends: str = "bad_answer", **odd: Any) -> None:
    """Add a way whose answer is the honest one, but for these fields; functions make large ones."""

    def act(honest: Any) -> Iterator[bytes]:
        made = {key: value() if callable(value) else value for key, value in odd.items()}
        yield line(json.dumps(dict(honest, **made)))

    way(name, program, says, act, ends)


def without(name: str, program: str, field: str, ends: str = "bad_answer") -> None:
    """Add a way whose answer lacks a field."""

    def act(honest: Any) -> Iterator[bytes]:
        yield line(json.dumps({key: value for key, value in honest.items() if key != field}))

    way(name, program, f"no `{field}`", act, ends)


def ended(name: str, says: str, ends: str = "bad_answer", **odd: Any) -> None:
    """Add a way whose poll says that the run ended, with these fields."""
    fields(name, POLL, says, ends, done=dict({"ended_by": "exit", "rc": 0}, **odd))


def refuse(name: str, says: str, ends: str, refused: Any, message: Any) -> None:
    """Add a way whose preparation is refused."""
    fields(name, PREPARE, says, ends, refused=refused, message=message)


def flood(piece: bytes) -> Act:
    """Print without end."""

    def act(honest: Any) -> Iterator[bytes]:
        while True:
            yield piece

    return act


def silence(honest: Any) -> Iterator[bytes]:
    """Answer nothing, and do not end either, as long as somebody listens."""
    listener = select.poll()
    listener.register(1, 0)
    listener.poll(120_000)
    yield b""


def words(to: int, content: bytes, code: int) -> Act:
    """Print no answer, but words, and end with an exit code."""

    def act(honest: Any) -> Iterator[bytes]:
        os.write(to, content)
        sys.stdout.flush()
        os._exit(code)
        yield b""

    return act


# --- to prepare -----------------------------------------------------------------------------------
text("list", PREPARE, "a list", "[]")
text("deep", PREPARE, "lists nested 100,000 deep", DEEP)
fields("now-text", PREPARE, "`now`: a text", now="soon")
fields("now-true", PREPARE, "`now`: true", now=True)
fields("now-negative", PREPARE, "`now`: -1", now=-1)
without("no-now", PREPARE, "now")
fields("boot-mapping", PREPARE, "`boot_id`: a mapping", boot_id={"a": "b"})
fields("boot-escape", PREPARE, "`boot_id`: escape sequences, lines", boot_id="a\n" + ESCAPE)
way("flood", PREPARE, "lines without end", flood(b"x" * 65_535 + b"\n"), "bad_answer")
way("flood-answer", PREPARE, "one answer without end", flood(SIGN + b"[" * 65_536), "bad_answer")
way("nothing", PREPARE, "nothing, and exit code 0", words(1, b"", 0), "launch_error")
way(
    "words",
    PREPARE,
    "escape sequences on standard error, and exit code 3",
    words(2, f"Traceback\n{ESCAPE} no\n".encode(), 3),
    "launch_error",
)
way("killed", PREPARE, "nothing: a signal ends it", words(2, b"Killed\n", 137), "launch_error")
refuse("refusal-unknown", "`refused`: an unknown cause", "bad_answer", "tired", "no")
refuse("refusal-list", "`refused`: a list", "bad_answer", ["missing"], "no")
refuse(
    "refusal-ours", "`refused`: `interrupted`, which is bench's", "bad_answer", "interrupted", ""
)
refuse("refusal-words", "`message`: a mapping", "bad_answer", "missing", {"a": 1})
refuse("refusal-escape", "`message`: escape sequences", "missing", "missing", "no " + ESCAPE)
refuse("refusal-long", "`message`: 4 MiB", "missing", "missing", "long " * 838_861)
fields("more", PREPARE, "10,000 fields more", "launch_error", **{f"f{n}": n for n in range(10_000)})

# --- to a poll ------------------------------------------------------------------------------------
text("poll-list", POLL, "a list", "[1, 2]")
text("poll-deep", POLL, "lists nested 100,000 deep", DEEP)
without("poll-no-done", POLL, "done")
fields("done-list", POLL, "`done`: a list", done=["exit"])
fields("done-empty", POLL, "`done`: an empty mapping", done={})
ended("done-word", "`done.ended_by`: an unknown word", ended_by="tired")
ended("done-ours", "`done.ended_by`: `refused`, which is the control node's", ended_by="refused")
ended("done-rc-text", "`done.rc`: a text", rc="0; rm -rf /")
ended("done-rc-huge", "`done.rc`: 30 digits", rc=10**30)
ended("done-rc-true", "`done.rc`: true", rc=True)
ended("done-signal", "`done.signal`: 4096", rc=None, signal=4096)
ended(
    "done-message",
    "`done.message`: 1 MiB with escape sequences",
    "supervisor_lost",
    ended_by="error",
    message=(ESCAPE + "x") * 40_000,
)
ended("done-stood", "`done.stood`: texts", stood=["rank 0"])
ended("done-kills", "`done.oom_kills`: a list", oom_kills=[1])
fields("offset-negative", POLL, "`offset`: -1", offset=-1)
fields("offset-text", POLL, "`offset`: a text", offset="0")
fields("size-float", POLL, "`size`: 1e300", size=1e300)
text("size-infinite", POLL, "`size`: Infinity", '{"size": Infinity}')
fields("data-no-base64", POLL, "`data`: no base64", data="%%%")
fields("data-no-zlib", POLL, "`data`: not packed by zlib", data="AAAA")
fields("data-cut", POLL, "`data`: the half of it", data=pack(os.urandom(1000))[:800])
fields("data-bomb", POLL, "`data`: 60 MiB of zeros in 60 KiB", data=zeros(60))
fields("data-long", POLL, "`data`: 4 MiB of base64", data=lambda: "A" * (4 << 20))
fields("samples-bomb", POLL, "`samples`: 60 MiB of zeros", samples=zeros(60))
fields("samples-mapping", POLL, "`samples`: a mapping", samples={})
fields("arrivals-bomb", POLL, "`arrivals`: 60 MiB of zeros", arrivals=zeros(60))
fields(
    "files-many",
    POLL,
    "`files`: 20,000 event files",
    files=lambda: {f"tensorboard/tfevents.{n}": 1 for n in range(20_000)},
)
fields("files-list", POLL, "`files`: a list", files=["samples.csv"])
fields("files-negative", POLL, "`files`: a size of -1", files={"samples.csv": -1})
fields(
    "files-outside",
    POLL,
    "`files`: names with `..`, absolute names, names with lines",
    "ok",
    done={"ended_by": "exit", "rc": 0},
    files={
        "../../../../victim": 10,
        "/etc/passwd": 10,
        "tensorboard/../../tfevents": 10,
        "tensorboard/tfevents\n\x1b[2J": 10,
        "tensorboard/.ssh/tfevents": 10,
    },
)
fields(
    "files-huge",
    POLL,
    "`files`: samples of 2^62 bytes",
    "ok",
    done={"ended_by": "exit", "rc": 0},
    files={"samples.csv": 2**62},
)
fields(
    "log-huge",
    POLL,
    "`size`: a log of 2^62 bytes",
    "ok",
    done={"ended_by": "exit", "rc": 0},
    size=2**62,
)
fields(
    "log-escape",
    POLL,
    "a log of escape sequences, binary and a rank of 5,000 digits",
    "ok",
    done={"ended_by": "exit", "rc": 0},
    data=pack(bytes(range(256)) + f"\n[Rank {'9' * 5_000}{ESCAPE}".encode()),
    offset=0,
)
way("poll-flood", POLL, "lines without end", flood(b"x" * 65_535 + b"\n"))
way("poll-silent", POLL, "nothing, and does not end", silence, "node_lost")
way("poll-nothing", POLL, "nothing, and exit code 0", words(1, b"", 0), "launch_error")
ended("lie", "the run ended well, while it goes on", "ok")

# --- to a fetch, and at the end -------------------------------------------------------------------
text("fetch-list", FETCH, "a list", "[]", "ok")
fields("fetch-nothing", FETCH, "no byte", "ok", data=pack(b""))
fields("fetch-one", FETCH, "one byte, of 8 MiB", "ok", data=pack(b"x"))
fields("fetch-more", FETCH, "more than was asked for", "ok", data=zeros(3))
fields("fetch-bomb", FETCH, "64 MiB of zeros in 64 KiB", "ok", data=zeros(64))
text("close-deep", CLOSE, "lists nested 100,000 deep", DEEP, "ok")
fields("close-words", CLOSE, "`removed`: a text", "ok", removed=ESCAPE)

# --- to bench, before the first run ---------------------------------------------------------------
text("inspect-list", INSPECT, "a list", "[]", "refused")
text("inspect-deep", INSPECT, "lists nested 100,000 deep", DEEP, "refused")
text(
    "inspect-unreachable",
    INSPECT,
    "`unreachable`: escape sequences",
    json.dumps({"unreachable": ESCAPE}),
    "refused",
)
fields("inspect-devices", INSPECT, "`devices`: texts", "refused", devices=["x"])
without("inspect-no-files", INSPECT, "files", "refused")
fields("inspect-files", INSPECT, "`files`: a list", "refused", files=[])
text(
    "inspect-digits", INSPECT, "`memory_mib`: 400 digits", f'{{"memory_mib": {DIGITS}}}', "refused"
)
fields("inspect-long", INSPECT, "`cpu`: 1 MiB", "refused", cpu=lambda: "x" * (1 << 20))
way(
    "inspect-words",
    INSPECT,
    "escape sequences on standard error, and exit code 1",
    words(2, ESCAPE.encode() + b"\n", 1),
    "refused",
)
way("inspect-flood", INSPECT, "lines without end", flood(b"x" * 65_535 + b"\n"), "refused")


def manifest(name: str, says: str, ends: str, odd: Callable[[Any], Any], only: str) -> None:
    """Add a way whose inspection has another file, of those whose name begins with `only`."""

    def act(honest: Any) -> Iterator[bytes]:
        files = {
            key: odd(content) if key.startswith(only) else content
            for key, content in honest["files"].items()
        }
        yield line(json.dumps(dict(honest, files=files)))

    way(name, INSPECT, says, act, ends)


manifest("manifest-text", "a dataset.json that is a text", "refused", lambda _: "x", "dataset")
manifest(
    "manifest-sizes",
    "its `bytes`: texts",
    "refused",
    lambda m: dict(m, bytes={"a": "b"}),
    "dataset",
)
manifest(
    "manifest-deep",
    "an `identity` nested 60 deep",
    "refused",
    lambda _: {"identity": json.loads("[" * 60 + "]" * 60)},
    "system",
)
manifest(
    "env-odd",
    "an env.json with `gpu`: texts",
    "ok",
    lambda _: {"gpu": {"devices": ["x"]}, "cpu": 7},
    "env",
)

# --- to doctor ------------------------------------------------------------------------------------
text("facts-list", FACTS, "a list", "[]", "unasked")
fields("facts-devices", FACTS, "`gpu.devices`: texts", "unasked", gpu={"devices": ["x"]})
text(
    "facts-digits",
    FACTS,
    "`disk.free_mib`: 400 digits",
    f'{{"disk": {{"free_mib": {DIGITS}}}}}',
    "unasked",
)
fields(
    "facts-escape",
    FACTS,
    "`gpu.problem`: escape sequences",
    "compared",
    gpu={"driver": None, "problem": "broken " + ESCAPE, "devices": []},
)


# --- in place of a node's Python ------------------------------------------------------------------
def name_of(message: Any) -> str:
    """Return the name of the way that is chosen for who asks."""
    arguments = message.get("arguments") or {}
    job = arguments
    if "folder" in arguments:
        job = json.loads(Path(arguments["folder"], "job.json").read_text())
    chosen = Path(__file__).with_name("way")
    default = chosen.read_text().strip() if chosen.exists() else ""
    return str(job.get("env", {}).get("WAY", default))


def honest(argv: list[str], given: bytes) -> tuple[bytes, int]:
    """Return what the real Python prints, and its exit code."""
    ran = subprocess.run([sys.executable, *argv], input=given, stdout=subprocess.PIPE)
    return ran.stdout, ran.returncode


def main(argv: list[str]) -> int:
    """Answer as the way says, or honestly."""
    given = sys.stdin.buffer.read()
    message = json.loads(given) if given.startswith(b"{") else {}
    chosen = WAYS.get(name_of(message)) if message else None
    if chosen is None or argv[-1] != chosen.program:
        output, code = honest(argv, given)
        sys.stdout.buffer.write(output)
        return code
    if chosen.program == POLL:  # the trainer is not what is shown here
        Path(message["arguments"]["folder"], "stop").write_text("stopped")
    if chosen.program == PREPARE:
        facts = {"now": time.time(), "boot_id": ""}  # and no supervisor is left
    else:
        facts = json.loads(honest(argv, given)[0][len(SIGN) :])
    for piece in chosen.act(facts):
        sys.stdout.buffer.write(piece)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
