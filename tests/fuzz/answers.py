"""What nodes answer, made wrong: to the launch plugin, to doctor, to the tasks of roles.

A launch ends, by the plugin's own clock, with a done.json that its readers take and a halt whose
words are printable; what doctor prints is; and of an answer to a role's task, a text that its kind
lets pass is one line, unless the kind says otherwise.
"""

import copy
import json
import random
import shutil
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure

from node.answer import SIGN
from node.schema import (
    AnyOf,
    Fields,
    Flag,
    List,
    Mapped,
    Maybe,
    Number,
    OneOf,
    Row,
    Text,
    UnfitError,
    Whole,
    Words,
)
from node.supervisor import kinds as supervisor
from node.supervisor.answers import pack
from node.validated_text import Checked, FileName, HostName, InsidePath, Sha256
from plugins import answers
from plugins.launching import node_launch, shared_run, supervisor_client
from plugins.node_action import read, to
from plugins.sharing import shared
from roles.apex.action_plugins import wheels
from roles.container_image.action_plugins import images
from roles.dataset.action_plugins import datasets
from runner.folder import names
from runner.results.decide import decide
from runner.terms.record import Interval, Measurement
from tests.fuzz.case import FindingError, printable, said, strict
from tests.fuzz.mutation import mutated, mutated_json, places
from tests.roles_unit.test_launch import Site
from tests.runner.doctor.test_differences import nodes, written

NEXT = b"\n\x00next\x00\n"
LOG = b"".join(b"step %d\n" % number for number in range(1, 6))
HOSTS = ("n1", "n2")


def ended(**more: Any) -> dict[str, Any]:
    """How a launcher ended."""
    return {
        **{"ended_by": "exit", "rc": 0, "signal": None, "message": "", "oom_kills": 0},
        **{"started_at": 1e9, "ended_at": 1e9 + 5, "wall_s": 5.0, "signalled": 0, "left": 0},
        **{"stood": [{"pid": 7, "rank": 0, "state": "S"}], **more},
    }


POLL = {
    **{"done": None, "size": len(LOG), "offset": 0, "samples": pack(b"")},
    **{"data": pack(LOG), "arrivals": pack(b"began 1.000 within_ms 5\n1.0 7\n"), "files": {}},
}
TALK: tuple[tuple[str, dict[str, Any]], ...] = (
    ("preparation:prepare", {"now": 1e9, "boot_id": "b"}),
    ("polling:poll", POLL),
    (
        "polling:poll",
        {
            **POLL,
            "offset": len(LOG) + 10,
            "data": pack(b"step 6\n"),
            "size": len(LOG) + 17,
            "samples": pack(b"timestamp, index, memory.used [MiB]\n"),
            "files": {"tensorboard/events.out.tfevents.1.h": 4, "stacks.txt": 3},
            "done": ended(),
        },
    ),
    ("polling:fetch", {"offset": 0, "data": pack(LOG)}),
    ("run_folder:close", {"removed": True}),
)


class Clock:
    """The plugin's clock: a second later at each look, so that what waits for ever is seen."""

    def __init__(self) -> None:
        self.now = 1e9

    def time(self) -> float:
        """Seconds since the epoch."""
        return self.monotonic()

    def monotonic(self) -> float:
        """Seconds."""
        self.now += 1.0
        return self.now

    def sleep(self, seconds: float) -> None:
        """Not a second of ours."""
        self.now += seconds


class Attacker:
    """A node whose supervisor answers what it is given, in turn; the last poll for ever."""

    def __init__(self, parts: list[bytes]) -> None:
        self.parts: dict[str, list[bytes]] = {entry: [] for entry, _ in TALK}
        for (entry, _), answer in zip(TALK, parts, strict=False):
            self.parts[entry].append(answer)
        self.patience_s, self.kept = 0.0, ""
        self.variables: dict[str, Any] = {}

    def ask(self, entry: str, spec: Any, kind: Any, file: str = "") -> Any:
        """As NodeAction.ask does."""
        queue = self.parts.get(entry.partition(".")[2], [])
        if not queue:
            raise AnsibleConnectionFailure("\x1b[2Jno route to host")
        part = queue.pop(0) if len(queue) > 1 else queue[0]
        output = SIGN + part.decode("utf-8", "replace")
        facts = read(output, kind, to(entry))
        if facts is None:
            raise ValueError("no answer")
        return facts


class Answers:
    """The first line says to whom: launch, doctor or the task of a role."""

    name = "answers"
    share = 30

    @cached_property
    def kinds(self) -> dict[str, Any]:
        """Each program to what it may answer."""
        return {
            **answers.KINDS,
            "dataset.inspection:look": answers.datasets(["default"]),
            "pin:look": answers.pins(["torch-2.13"]),
            "inspection:inspect": supervisor.inspected(["a", "env"], "env", ["folder /x"]),
            "stopping:stop_all": supervisor.STOPPED,
        }

    @cached_property
    def env(self) -> dict[str, Any]:
        """What doctor keeps of three nodes."""
        return nodes(3)

    def make(self, chance: random.Random) -> bytes:
        """An answer made wrong, or a whole talk."""
        what = chance.random()
        if what < 0.45:
            parts = [json.dumps(answer).encode() for _, answer in TALK]
            for _ in range(chance.choice((1, 1, 2))):
                at = chance.randrange(len(parts))
                parts[at] = mutated_json(TALK[at][1], chance)
            return b"launch\n" + NEXT.join(parts)
        if what < 0.7:
            return b"doctor\n" + mutated_json(self.env["node2"], chance)
        entry = chance.choice(sorted(self.kinds))
        valid = copy.deepcopy(sample(self.kinds[entry], chance))
        for holder, key in places(valid):
            if chance.random() < 0.1 and isinstance(holder[key], str):
                holder[key] = chance.choice((holder[key] * 2, "a/b", "../x", "a\nb"))
        data = mutated_json(valid, chance)
        return entry.encode() + b"\n" + (mutated(data, chance) if chance.random() < 0.1 else data)

    def judge(self, data: bytes, folder: Path) -> None:
        """Give it to whom it is for."""
        to_whom, _, rest = data.partition(b"\n")
        home = folder / "case"
        home.mkdir()
        try:
            if to_whom == b"launch":
                launched(rest.split(NEXT), home)
            elif to_whom == b"doctor":
                self._doctor(rest, home)
            else:
                self._role(to_whom.decode(), rest)
        finally:
            shutil.rmtree(home)

    def _doctor(self, data: bytes, home: Path) -> None:
        checkup = written(home, self.env)
        (checkup.path / "env" / "node2.json").write_bytes(b'{"env":' + data + b"}")
        form = ("table", "json")[len(data) % 2]
        answer = said(["doctor", "--from", str(checkup.path), "--format", form])
        if answer.err.startswith("error: "):
            raise FindingError("doctor: one node's answer ends it")

    def _role(self, entry: str, data: bytes) -> None:
        kind = self.kinds[entry]
        try:
            answer = read(SIGN + data.decode("utf-8", "replace"), kind, to(entry))
        except UnfitError as error:
            printable("a refusal", str(error))
            return
        if answer is not None:
            plans(entry, answer)


def plans(entry: str, answer: Any) -> None:
    """What the roles' plugins make of an answer that passed."""
    if entry == "dataset.inspection:look":
        found = dict.fromkeys(HOSTS, answer)
        planned = datasets.plan(found, ["default"])
        shared(planned, {host: host for host in HOSTS})
    elif entry == "image:look":
        images.plan({"n1": answer["image"], "n2": ""})
    elif entry == "apex:look":
        wheels.plan(dict.fromkeys(HOSTS, answer), {}, "n1", False)
    for holder, key in places([answer]):
        if isinstance(holder[key], Checked) and "\n" in holder[key]:
            raise FindingError(f"{entry}: a checked text has a line break")


def launched(parts: list[bytes], home: Path) -> None:
    """One run whose node answers so."""
    site, clock = Site(home), Clock()
    timed = (shared_run, node_launch, supervisor_client)
    for module in timed:
        vars(module)["time"] = clock
    try:
        with site.campaign.locked():
            site.run("true", Attacker(parts))
    finally:
        for module in timed:
            vars(module)["time"] = time
    if clock.now - 1e9 > 20_000:
        raise FindingError("the launch did not end by itself")
    strict("done.json", (site.attempt.node(0) / names.DONE).read_text())
    halt = site.attempt.halt
    printable("the halt", halt.message if halt else "")
    for measured in (Measurement(), Measurement(tuple(Interval(n) for n in range(1, 6)))):
        outcome = decide(
            nodes=1,
            endings=site.attempt.endings(),
            halt=halt,
            measured=measured,
            train_iters=5,
            play_words="",
        )
        printable("the outcome", outcome.reason)
    wrong = [path for path in home.rglob("*") if ".." in path.parts or path.is_symlink()]
    if wrong:
        raise FindingError("a node's name became a path")


# --- a value that a kind lets pass ----------------------------------------------------------------

TEXTS: dict[type[Checked], str] = {
    HostName: "n1",
    InsidePath: "a/b.bin",
    FileName: "a.bin",
    Sha256: "0" * 64,
}


def sample(kind: Any, chance: random.Random) -> Any:
    """Something of that kind, or near it."""
    if isinstance(kind, type) and issubclass(kind, Checked):
        return TEXTS.get(kind, "n1")
    for known, make in SAMPLES.items():
        if isinstance(kind, known):
            return make(kind, chance)
    return {"a": ["b", 1]}


def _fields(kind: Fields, chance: random.Random) -> dict[str, Any]:
    kinds = {**kind.needed, **{name: each for name, (each, _) in kind.optional.items()}}
    return {name: sample(each, chance) for name, each in kinds.items()}


SAMPLES: dict[type, Callable[[Any, random.Random], Any]] = {
    Fields: _fields,
    List: lambda kind, chance: [sample(kind.kind, chance) for _ in range(max(kind.least, 1))],
    Row: lambda kind, chance: [sample(each, chance) for each in kind.kinds],
    Mapped: lambda kind, chance: {sample(kind.name, chance): sample(kind.kind, chance)},
    AnyOf: lambda kind, chance: sample(chance.choice(kind.kinds), chance),
    Maybe: lambda kind, chance: sample(kind.kind, chance),
    OneOf: lambda kind, chance: chance.choice(kind.values),
    Flag: lambda kind, chance: chance.random() < 0.5,
    Whole: lambda kind, chance: chance.choice((kind.least, 1, min(kind.most, 7))),
    Number: lambda kind, chance: 1.5,
    Words: lambda kind, chance: "words",
    Text: lambda kind, chance: chance.choice(("x", "", "/opt/tb", "0")),
}
