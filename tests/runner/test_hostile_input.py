"""What users are sent by others, on every command line: one sentence, and nothing runs."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from node.schema import UnfitError
from runner.__main__ import main
from runner.archive.archive import opened
from runner.base.errors import UserError
from runner.base.paths import PROJECT
from runner.compare.side import saved
from runner.compare.verdicts import compare_campaigns, thresholds
from runner.inventory import listing as reader
from runner.inventory.inventory import parse_inventory
from runner.inventory.listing import ansible_inventory
from runner.plan.script import launch_script
from runner.report.formats import render
from runner.tables.campaign_reading import read_campaign
from tests.golden.places import inventory
from tests.runner.builders import small_cluster, small_run
from tests.runner.matrix.test_hostile import ALIASES, MERGES

ODD = "\x1b]0;owned\x07\x1b[2J\u202eend"
# --- inventories ----------------------------------------------------------------------------------


@pytest.mark.parametrize("bomb", [MERGES, ALIASES, "a: " + "[" * 100_000, "a: &a [*a]"])
@pytest.mark.parametrize("place", ["group_vars/all/x.yml", "host_vars/n1", "hosts.yml"])
def test_a_bomb_in_an_inventory_is_refused_by_its_file(
    bomb: str, place: str, tmp_path: Path
) -> None:
    """`ansible-inventory` reads it for ever, and had no limit in time."""
    home = inventory(tmp_path / "place")
    (home / place).parent.mkdir(parents=True, exist_ok=True)
    (home / place).write_text(bomb)
    with pytest.raises(UserError, match=f"{place}: it nests too deeply"):
        ansible_inventory(home)


def test_an_inventory_that_does_not_end_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "hosts.sh"
    program.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 1000\n")
    program.chmod(0o755)
    monkeypatch.setattr(reader, "PATIENCE_S", 0.5)
    monkeypatch.setattr(reader, "LIMIT_S", 12.0)
    with pytest.raises(UserError, match=r"was not read within 12 s; if it is a program, see"):
        ansible_inventory(program)
    assert "still reading the inventory" in capsys.readouterr().err
    pid = int((tmp_path / "pid").read_text())
    state = Path(f"/proc/{pid}/stat")  # Z: nobody has reaped it yet
    until = time.monotonic() + 5  # a signal takes its time where every core is taken
    while ended := state.exists() and state.read_text().rpartition(")")[2].split()[0] not in "ZX":
        assert time.monotonic() < until
        time.sleep(0.05)
    assert not ended


def listed(**variables: Any) -> dict[str, Any]:
    said = {"cluster_root": "/opt/tb", "cluster_devices_per_node": 1, **variables}
    return {"nodes": {"hosts": ["n1"]}, "_meta": {"hostvars": {"n1": said}}}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([], "must be a mapping"),
        ({"nodes": 5}, "must be a mapping"),
        ({"nodes": {"hosts": 5}}, "must be a list"),
        ({"nodes": {"hosts": [5]}}, "must be text"),
        ({"nodes": {"hosts": ["../../x"]}}, "'../../x' cannot be a node's name"),
        ({"nodes": {"hosts": ["n" * 300]}}, "cannot be a node's name"),
        ({**listed(), "_meta": {"hostvars": []}}, "must be a mapping"),
        ({**listed(), "_meta": {"hostvars": {"n1": 5}}}, "must be a mapping"),
        (listed(ansible_host="n1 -oProxyCommand=x"), "the address of n1 is"),
        (listed(ansible_host=ODD), "control character"),
        (listed(cluster_address=["x"]), "the address of n1 is"),
        (listed(cluster_root=f"/opt/{ODD}"), "control character"),
        (listed(cluster_devices_per_node=10**15), "at most 100000"),
        (listed(cluster_env={"HF_TOKEN$(touch /tmp/x)": "x"}), "is not a variable's name"),
        (listed(cluster_env={5: "x"}), "must be text"),
        (listed(cluster_container_options=[f"--x={ODD}"]), "control character"),
        (listed(cluster_device_memory_mib=10**400), "cluster_device_memory_mib of n1"),
        (listed(cluster_lost_contact_s=1e300), "at most 86400"),
    ],
)
def test_what_ansible_lists_passes_one_door(answer: Any, words: str) -> None:
    with pytest.raises(UserError, match=r"\A[^\n]*\Z") as caught:
        parse_inventory(answer, Path("inventory/x"))
    assert words in str(caught.value)
    assert str(caught.value).isprintable()


def test_groups_within_each_other_for_ever_are_read() -> None:
    """Ansible refuses a circle; a chain of thousands ended in a RecursionError."""
    chain: dict[str, Any] = {f"g{n}": {"children": [f"g{n + 1}"]} for n in range(5_000)}
    answer = {**listed(), **chain, "nodes": {"children": ["g0"]}, "g5000": {"hosts": ["n1"]}}
    assert [node.host for node in parse_inventory(answer, Path("x")).nodes] == ["n1"]


# --- what a shell reads ---------------------------------------------------------------------------


def test_no_name_of_a_variable_runs_in_launch_sh(tmp_path: Path) -> None:
    """`HF_TOKEN$(touch x)` ran: a name cannot be quoted where a shell asks for its value."""
    run = small_run({}, small_cluster(1))
    evil = f"HF_TOKEN$(touch {tmp_path}/ran)"
    node = replace(run.nodes[0], env={evil: "x"})
    for changed in (replace(run, secrets=(evil,)), replace(run, nodes=(node,))):
        with pytest.raises(UnfitError, match="must be a variable's name"):
            launch_script(changed)
    assert list(tmp_path.iterdir()) == []


# --- command lines --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        ["bench", "--matrix", "matrix.yaml", "--dry-run", "--runs"],
        ["collect", "--runs"],
        ["status", "--runs"],
        ["export", "x", "-o"],
        ["doctor", "--from"],
    ],
)
def test_a_path_that_is_no_text_is_one_sentence(line: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [os.fsencode(sys.executable), b"-m", b"runner", *map(os.fsencode, line), b"/tmp/\xff\xfe"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not text in UTF-8; give the file or folder another name" in done.stderr
    assert done.stderr.count("\n") == 1


BUNDLE = PROJECT / "docs/results/bundles/llama-8b-accumulated-on-two-h200.tar.gz"


def table(**changes: Any) -> Any:
    """A saved table of one row, with other values of it or of its figures."""
    with opened(BUNDLE.parent, str(BUNDLE)) as source:
        read = json.loads(render(read_campaign(source.campaign, source.shown), "json"))
    row = read["rows"][0]
    row |= {key: value for key, value in changes.items() if key in row}
    row["figures"] |= {key: value for key, value in changes.items() if key not in row}
    return {"rows": [row], "environment": {"gpu": "V100"}}


def test_a_saved_table_is_read() -> None:
    assert len(saved("x", table()).rows) == 1


@pytest.mark.parametrize(
    "row",
    [
        {"samples_per_s": "fast"},
        {"samples_per_s": True},
        {"samples_per_s": 10**400},
        {"samples_per_s": [1]},
        {"stalls_percent": {}},
        {"runs": [{"samples_per_s": "fast"}]},
        {"cell": 5},
        {"cell": ODD},
        {"cell_id": ["x"]},
        {"status": None},
        {"parameters": [1]},
        {"steps_measured": "5"},
    ],
)
def test_a_saved_table_of_the_wrong_shape_is_one_sentence(
    row: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps(table(**row)))
    assert main(["compare", str(path), str(path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "table" in said


def test_a_saved_table_that_is_too_deep_or_no_file_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "table.json"
    path.write_text("[" * 100_000)
    assert main(["compare", str(path), str(path)]) == 2
    assert "neither an archive of `export` nor a table" in capsys.readouterr().err


def test_a_figure_of_nothing_on_one_side_is_compared() -> None:
    a, b = (saved("x", table(samples_per_s=n)) for n in (5.0, 0.0))
    assert compare_campaigns(a, b, thresholds([])).regressions == 1
