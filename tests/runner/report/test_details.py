"""What a row opens to: commands, differences, ends of logs."""

import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.figures.publishable import CODES
from runner.report.details import (
    LEAST_TAIL,
    anchors,
    bytes_text,
    commands,
    details,
    shell_text,
)
from runner.tables.build import measured
from runner.tables.environment_facts import own_facts
from runner.terms.run_evidence import Evidence, NodeEvidence, NodeLog
from tests.runner.documents import rows
from tests.runner.report.test_report import CAMPAIGN, EVIL, failed, record

LOG = NodeLog("nodes/0000-n1/launcher.log", 20_000, tuple(f"line {n}" for n in range(40)))


def node(rank: int = 0, *, words: tuple[str, ...] = (), **more: Any) -> NodeEvidence:
    argv = ("/bin/echo", "-n", "--node_rank", str(rank), *words)
    fields = {"commands": (argv,), "env": {"A": "b c", "PATH": "/bin"}, "cwd": "/", "log": LOG}
    return NodeEvidence(rank, f"n{rank + 1}", **{**fields, **more})


def evidence(cell: str, *nodes: NodeEvidence, repeat: int = 1, **more: Any) -> Evidence:
    return Evidence(cell, repeat, 1, Path("/nowhere"), cell, nodes, **more)


@pytest.mark.parametrize(
    "words", [(), ("it's", 'a "quoted" word'), ("$(id)", "`id`", "a\nb", "\\"), ("é", "*", "~")]
)
def test_a_copied_command_is_the_argv_and_the_variables(words: tuple[str, ...]) -> None:
    program = (
        "/usr/bin/env",
        "python3",
        "-c",
        "import os,sys;print(sys.argv[1:], os.environ['A'])",
    )
    one = node(commands=((*program, *words),), env={"A": "b 'c", "PATH": "/usr/bin:/bin"})
    argv = ["bash", "-c", shell_text(one, ["HF_TOKEN"])]
    ran = subprocess.run(argv, capture_output=True, text=True, check=True, env={"HF_TOKEN": "x"})
    assert ran.stdout == f"{list(words)} b 'c\n"


def test_a_node_that_starts_several_or_nothing() -> None:
    assert shell_text(node(commands=()), []) == ""
    text = shell_text(node(commands=(("/a",), ("/b",))), [])
    assert [line.split()[-2:] for line in text.split("\n") if line.endswith("&")][-1] == ["/b", "&"]
    assert shlex.split(text.replace("\\\n", ""))


def test_of_many_nodes_the_first_one_is_written_out() -> None:
    first, *others = commands(evidence("c", *(node(rank) for rank in range(5))))
    assert first["text"]
    assert [part["text"] for part in others] == [""] * 4
    assert others[0]["note"] == "like n1's, for its own rank"
    waits = commands(evidence("c", node(), node(1, commands=(), note="waits")))[1]
    assert (waits["text"], waits["note"]) == ("", "waits")


def test_a_row_tells_its_verdict_with_the_cure_and_each_run() -> None:
    again = replace(failed(CAMPAIGN[0]), repeat=2)
    cells, table = measured([CAMPAIGN[0], again])
    found = {("n1-zero0", 1): evidence("n1-zero0", node(), script="launch.sh")}
    (item,) = details(cells, table, found, {"n1-zero0/nodes/0000-n1/launcher.log": 0})
    assert [code["code"] for code in item["verdict"]] == list(table[0]["verdict_reasons"])
    assert all(code["cure"] == CODES[code["code"]].cure for code in item["verdict"])
    first, second = item["runs"]
    assert (first["status"], first["rate"], first["counted"]) == ("ok", "231.0", True)
    assert (second["status"], second["rate"], second["reason"]) == ("did_not_run", "–", "boom")
    assert first["script"] == "n1-zero0/launch.sh"
    assert first["logs"][0]["inside"] == 0
    assert first["logs"][0]["size"] == "20 KiB"
    assert second["logs"][0]["href"] == "n1-zero0/launcher.log"
    assert item["command_of"] == " of repeat 1"
    assert len(item["tails"]) == 1


def test_a_row_that_has_not_run_and_an_import_say_why_there_is_no_command() -> None:
    cells, table = measured(CAMPAIGN[:2])
    found = {("n1-zero0", 1): evidence("n1-zero0", node(commands=()), missing="it was imported")}
    imported, pending = details(cells, table, found, {})
    assert (imported["commands"], imported["no_command"]) == ([], "it was imported")
    assert (pending["commands"], pending["no_command"]) == ([], "it has not run")


def test_variables_and_machines_that_are_not_all_cells() -> None:
    cells, table = measured(CAMPAIGN[:3])
    own = [{"A": "1", "SAME": "x"}, {"A": "2", "SAME": "x"}, {"SAME": "x", "B": "3"}]
    found = {
        (row["cell_id"], 1): evidence(row["cell_id"], node(env=env))
        for row, env in zip(table, own, strict=True)
    }
    assert [item["differs"] for item in details(cells, table, found, {})] == [
        [("A", "1")],
        [("A", "2")],
        [("B", "3")],
    ]


def test_of_nodes_only_what_is_not_as_on_most_is_unlike() -> None:
    nodes = {"a": {"driver": "1"}, "b": {"driver": "1"}, "c": {"driver": "2"}}
    runs = [
        record(name, environment={"nodes": nodes, "torch": torch}, hosts=hosts)
        for name, torch, hosts in (("x", "2.1", ("a", "b")), ("y", "2.2", ("a", "c")))
    ]
    assert own_facts(measured(runs)[0]) == [
        [("torch", "2.1")],
        [("torch", "2.2"), ("c: driver", "2")],
    ]
    even = {"a": {"driver": "1"}, "b": {"driver": "2"}}
    (facts,) = own_facts(measured([record("z", environment={"nodes": even}, hosts=("a",))])[0])
    assert facts == [("a: driver", "1")]


def test_the_ends_of_many_logs_are_short() -> None:
    many = [replace(CAMPAIGN[0], cell=f"c{n}", cell_id=f"c{n}") for n in range(400)]
    line = NodeLog("l", 9, tuple("x" * 100 for _ in range(40)))
    found = {(run.cell_id, 1): evidence(run.cell_id, node(log=line)) for run in many}
    texts = [item["tails"][0]["text"] for item in details(*measured(many), found, {})]
    assert max(map(len, texts)) <= LEAST_TAIL
    long = NodeLog("l", 9, ("y" * 5000,))
    (item,) = details(*measured(many[:1]), {("c0", 1): evidence("c0", node(log=long))}, {})
    assert item["tails"][0]["text"] == "y" * 5000


def test_anchors_are_of_plain_letters_and_each_is_one() -> None:
    runs = [replace(CAMPAIGN[0], campaign=str(n)) for n in range(2)] + [record(EVIL)]
    names = anchors(rows(runs))
    assert len(set(names)) == 3
    assert all(re.fullmatch(r"[\w.=+,-]+", name, re.ASCII) for name in names)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (312, "312 bytes"), (12_600, "12 KiB"), (3_565_158, "3.4 MiB")],
)
def test_sizes(count: int, text: str) -> None:
    assert bytes_text(count) == text
