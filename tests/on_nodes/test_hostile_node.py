"""On real nodes: one whose Python answers as an attacker chooses, beside one that is honest.

tests/hostile.py has the ways, and how each ends; docs/security.md lists them. Whatever it is, the
campaign goes on to its end, the honest node's files and ssh are as before, and nothing that is
printed holds a control character. Here are a dozen of a run's, all of which
tests/roles_unit/test_hostile_supervisor.py tries; `make nightly SUITE=hostile` has the others.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.folder import names
from tests import hostile
from tests.cluster.fixtures import Group, RealNodes
from tests.cluster.node import Node
from tests.cluster.system import base_python
from tests.conftest import ROOT
from tests.on_nodes.campaign import Bench

pytestmark = pytest.mark.cluster

FOLDER = ROOT / "build" / "hostile"  # where nodes see it: they hide /tmp
FETCH = {"ACT": "flood", "ACT_RANK": "1", "FLOOD_MIB": "1"}  # a log that one poll does not bring
CHOSEN = (
    *("list", "deep", "now-text", "flood-answer", "words", "refusal-escape"),
    *("poll-list", "done-rc-huge", "data-bomb", "poll-silent", "files-outside", "fetch-more"),
)
BROUGHT = {
    *(names.DONE, names.LOG, names.PREPARED, names.ARRIVALS, names.SAMPLES),
    "events.out.tfevents.1.host",
}
ASKED = (hostile.INSPECT, hostile.FACTS)  # by bench and doctor, before a run
OTHERS = [name for name, way in hostile.WAYS.items() if way.program in ASKED]


@pytest.fixture
def group(real_nodes: RealNodes, stand_in_root: Path) -> Group:
    """Two nodes, of which the second's Python is the attacker's."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "way").write_text("")
    python = FOLDER / "python3"
    python.write_text(f"#!{base_python()} -IS\n{Path(hostile.__file__).read_text()}")
    python.chmod(0o755)
    variables = {
        "cluster_root": str(stand_in_root),
        "cluster_devices_per_node": 2,
        "cluster_lost_contact_s": 10,  # a busy machine takes seconds to pack 60 MiB
        "cluster_systems": ["torch_gpt"],
        "setup_privileged": False,
    }
    given = real_nodes(2, variables=variables)
    hosts = given.inventory / "hosts.yml"
    content = yaml.safe_load(hosts.read_text())
    nodes = content["all"]["children"]["nodes"]["hosts"]
    second = given.nodes[1].hostname
    nodes[second] = {**nodes[second], "ansible_python_interpreter": str(python)}
    hosts.write_text(yaml.safe_dump(content))
    return given


def matrix(cells: list[dict[str, str]], name: str = "hostile") -> dict[str, Any]:
    return {
        "name": name,
        "defaults": {"system": "torch_gpt", "devices_per_node": 1, "nodes": 2, "train_iters": 5},
        "axes": {"env": cells},
        "time_limit_s": 60,  # of a busy machine
    }


def fingerprint(node: Node, root: Path) -> str:
    """One checksum of an honest node's files: configuration, ssh, and what setup put there."""
    places = f"/etc /root/.ssh /home {root}"
    # env.json is what doctor writes, and compiled files are Python's own.
    files = "-xdev -type f -not -path '*/runs/*' -not -path '*/__pycache__/*' -not -name env.json"
    script = f"find {places} {files} -exec sha256sum {{}} + | sort"
    listed = node.exec(["sh", "-c", script]).stdout
    assert len(listed.splitlines()) > 20
    return hashlib.sha256(listed.encode()).hexdigest()


def here(group: Group, tmp_path: Path) -> dict[str, str]:
    """What the control node has outside of runs/: its ssh, keys, and what the test put there."""
    keys = ("id_*", "known_hosts", "ssh_config")
    files = [path for name in keys for path in Path(group.cluster.directory).glob(name)]
    files += [*(Path.home() / ".ssh").rglob("*"), *group.inventory.rglob("*"), *tmp_path.iterdir()]
    kept = [path for path in files if path.is_file()]
    assert len(kept) > 4
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in kept}


def plain(*texts: str) -> bool:
    return all(line.isprintable() for text in texts for line in text.split("\n"))


def command(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "runner", *words]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=400)


def outcomes(bench: Bench) -> dict[str, dict[str, Any]]:
    """The way of each run to its outcome."""
    found = {}
    for path in bench.campaign.glob(f"*/repeat1/attempt*/{names.OUTCOME}"):
        content = json.loads((path.parent / names.RUN).read_text())
        variables = content["cell"]["env"]
        found[variables.get("WAY", "")] = json.loads(path.read_text())
    return found


def play(tmp_path: Path, group: Group, root: Path, ways: Iterable[str], timeout: float) -> None:
    """Let the ways happen, a cell each and an honest one at last."""
    cells = [
        {"WAY": name, **(FETCH if hostile.WAYS[name].program == hostile.FETCH else {})}
        for name in ways
    ]
    bench = Bench(tmp_path, group.inventory, matrix([*cells, {"CELL": "after"}]))
    before = fingerprint(group.nodes[0], root), here(group, tmp_path)
    wanted = {name: hostile.WAYS[name].ends for name in ways} | {"": "ok"}
    ran = bench.run(timeout=timeout)
    assert ran.returncode == int(set(wanted.values()) != {"ok"}), ran.stderr
    assert fingerprint(group.nodes[0], root) == before[0]
    assert here(group, tmp_path) == before[1]
    ended = outcomes(bench)
    assert {way: end["cause"] or end["status"] for way, end in ended.items()} == wanted
    runs = ["--runs", str(bench.runs)]
    campaign = bench.campaign.name
    table, state = command("collect", campaign, *runs), command("status", campaign, *runs)
    again = bench.run("--dry-run")
    for said in (ran, table, state, again):
        assert plain(said.stdout, said.stderr)
        assert "Traceback" not in said.stdout + said.stderr
    for path in bench.campaign.rglob(f"nodes/0001-{group.nodes[1].hostname}/**/*"):
        assert path.is_dir() or path.name in BROUGHT, path
    assert all(plain(end["reason"]) for end in ended.values())
    sizes = [path.stat().st_size for path in bench.campaign.rglob("*") if path.is_file()]
    assert max(sizes) < 4 << 20


def test_a_dozen_ways_of_a_hostile_node(tmp_path: Path, group: Group, stand_in_root: Path) -> None:
    play(tmp_path, group, stand_in_root, CHOSEN, timeout=360)


def asked(tmp_path: Path, group: Group, root: Path, ways: Iterable[str]) -> None:
    """Let the ways happen that concern no run: what bench and doctor ask before."""
    bench = Bench(tmp_path, group.inventory, matrix([{"CELL": "one"}], "asked"))
    before = fingerprint(group.nodes[0], root), here(group, tmp_path)
    second = group.nodes[1].hostname
    for name in ways:
        (FOLDER / "way").write_text(name)
        way = hostile.WAYS[name]
        if way.program == hostile.INSPECT:
            said = bench.run()
            assert said.returncode == (0 if way.ends == "ok" else 2), (name, said.stderr)
        else:
            words = ("doctor", "-i", str(group.inventory), "--only", "env")
            said = command(*words, "--runs", str(bench.runs))
            shown = f"{second} cannot be asked" if way.ends == "unasked" else "GPU problem"
            assert shown in said.stdout, (name, said.stdout, said.stderr)
        assert way.ends == "ok" or second in said.stdout + said.stderr
        assert plain(said.stdout, said.stderr), (name, said.stdout, said.stderr)
        assert "Traceback" not in said.stdout + said.stderr
        inspected = bench.campaign / names.INSPECTED
        for path in [*inspected.glob("*.json"), *bench.runs.glob(f"{names.DOCTOR}/**/*.json")]:
            assert path.stat().st_size < 1 << 20
            json.loads(path.read_text())
            assert "\\u001b" not in path.read_text(), (name, path)
    assert fingerprint(group.nodes[0], root) == before[0]
    assert here(group, tmp_path) == before[1]


@pytest.mark.nightly("hostile")
@pytest.mark.timeout(600)
def test_every_fact_of_a_hostile_node(tmp_path: Path, group: Group, stand_in_root: Path) -> None:
    asked(tmp_path, group, stand_in_root, sorted(OTHERS, key="env-odd".__eq__))
