"""One recorded run once more: what is the same, where it lies, and when it is refused.

The nodes are those of test_campaign.py; tests/golden reruns through the whole command.
"""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from runner.__main__ import main
from runner.base.console import Screen
from runner.base.errors import UserError
from runner.base.escapes import ExactLine, ExactWord
from runner.folder import names, own_runs
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.launch import rerun
from runner.launch.bench import Tally, bench
from runner.launch.view import View
from runner.load.records import records_of
from runner.plan.make import make_run
from runner.plan.shown import would_execute
from runner.terms.cluster import Cluster
from runner.terms.run import Run
from tests.runner.builders import slurm_cluster, small_cluster, small_matrix
from tests.runner.launch.test_campaign import FAILED, LOST, Nodes

CLUSTER = replace(small_cluster(), env={"NCCL_DEBUG": "INFO"})
MATRIX = small_matrix({"zero_stage": [0, 1]}, {"nodes": 2, "env": {"NOTE": "it's $HOME"}})


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


def view() -> View:
    return View(Screen(file=io.StringIO()))


@pytest.fixture
def first(nodes: Nodes, tmp_path: Path) -> Path:
    """A run of a campaign that is over."""
    bench(MATRIX, CLUSTER, tmp_path, engine=nodes, view=view())
    return next((tmp_path / "m-rack").glob("zero_stage=1*/repeat1/attempt1"))


Again = Callable[..., tuple[Path, Tally]]


@pytest.fixture
def again(nodes: Nodes) -> Again:
    def go(path: Path, cluster: Cluster = CLUSTER) -> tuple[Path, Tally]:
        found = rerun.recorded(path)
        attempt, _, tally = rerun.rerun(
            found, cluster, engine=nodes, view=view(), runs=found.campaign.path.parent
        )
        return attempt.path, tally

    return go


def said(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((path / names.RUN).read_text())
    return content


def test_the_same_runs_in_a_folder_of_its_own(first: Path, nodes: Nodes, again: Again) -> None:
    path, tally = again(first)
    assert path.parts[-4:] == ("rerun-m-rack", first.parts[-3], "repeat1", "attempt1")
    assert tally.exit_code == 0
    was, now = said(first), said(path)
    assert now.pop("rerun_of") == was["run_id"]
    for node in was["nodes"]:
        assert node["dir"] == f"/opt/tb/runs/{was['run_id']}"
        node["dir"] = f"/opt/tb/runs/{now['run_id']}"
    for key in ("campaign", "run_id"):
        assert was.pop(key) != now.pop(key)
    assert was == now
    assert nodes.plays[-1]["hosts"] == ["n1", "n2"]
    assert "rerun-m-rack" in (path / "launch.sh").read_text()


def test_what_was_recorded_runs_whatever_this_version_would_plan(
    first: Path, nodes: Nodes, again: Again
) -> None:
    content = said(first)
    content["nodes"][0]["argv"].append(f"--of-an-older-version={content['nodes'][0]['dir']}/x")
    (first / names.RUN).write_text(json.dumps(content))
    own_runs.remember(first / names.RUN, (first / names.RUN).read_bytes())
    now = said(again(first)[0])
    assert now["nodes"][0]["argv"][-1] == f"--of-an-older-version={now['nodes'][0]['dir']}/x"


def test_the_old_campaign_stays_as_it_was(
    first: Path, nodes: Nodes, again: Again, tmp_path: Path
) -> None:
    def state() -> dict[str, bytes]:
        files = (tmp_path / "m-rack").rglob("*")
        return {str(path): path.read_bytes() for path in files if path.is_file()}

    before = state()
    nodes.endings = [FAILED]
    assert again(first)[1].exit_code == 1
    assert state() == before


def test_each_rerun_is_one_more_repeat_of_its_own_cell(
    first: Path, nodes: Nodes, again: Again, tmp_path: Path
) -> None:
    other = next((tmp_path / "m-rack").glob("zero_stage=0*/repeat1/attempt1"))
    for path in (first, first, other):
        again(path)
    records = records_of(Campaign(tmp_path / "rerun-m-rack"), tmp_path)
    assert [(r.axes["zero_stage"], r.repeat, r.status) for r in records] == [
        (1, 1, "ok"),
        (1, 2, "ok"),
        (0, 1, "ok"),
    ]


def test_a_rerun_that_something_outside_ended_is_made_again(
    first: Path, nodes: Nodes, again: Again
) -> None:
    nodes.endings = [LOST]
    again(first)
    assert again(first)[0].parts[-2:] == ("repeat1", "attempt2")


def test_a_rerun_can_be_rerun(first: Path, nodes: Nodes, again: Again) -> None:
    path, _ = again(again(first)[0])
    assert path.parts[-4:-1] == ("rerun-m-rack", first.parts[-3], "repeat2")
    assert said(path)["rerun_of"] == said(first)["run_id"]


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (small_cluster(nodes=1), "its nodes changed from n1, n2 to n1"),
        (
            replace(CLUSTER, nodes=(CLUSTER.nodes[1], CLUSTER.nodes[0])),
            "its nodes changed from n1, n2 to n2, n1",
        ),
        (
            replace(CLUSTER, nodes=tuple(replace(n, address="10.9.9.9") for n in CLUSTER.nodes)),
            "the address of n1 changed from 10.0.0.1 to 10.9.9.9",
        ),
        (
            replace(small_cluster(root="/data"), env=CLUSTER.env),
            "root of n1 changed from /opt/tb to /data",
        ),
        (
            replace(CLUSTER, env={"NCCL_DEBUG": "WARN"}),
            "NCCL_DEBUG on n1 changed from INFO to WARN",
        ),
        (replace(CLUSTER, env={"NEW": "1"}), "NEW on n2 changed from not set to 1"),
        (
            replace(CLUSTER, nodes=tuple(replace(n, devices=0) for n in CLUSTER.nodes)),
            "n1 has 0 devices, not 1",
        ),
    ],
)
def test_another_inventory_is_refused_with_what_differs(
    cluster: Cluster, words: str, first: Path, nodes: Nodes, again: Again, tmp_path: Path
) -> None:
    launched = len(nodes.plays)
    with pytest.raises(UserError) as refused:
        again(first, cluster)
    assert words in str(refused.value)
    assert len(nodes.plays) == launched
    assert not (tmp_path / "rerun-m-rack").exists()


def test_more_nodes_than_the_run_needs_do_not_matter(
    first: Path, nodes: Nodes, again: Again
) -> None:
    assert again(first, replace(small_cluster(nodes=4), env=CLUSTER.env))[1].exit_code == 0


def test_other_pins_are_refused_with_what_differs(first: Path, nodes: Nodes, again: Again) -> None:
    nodes.commit = "c1"
    launched = len(nodes.plays)
    with pytest.raises(UserError, match=r"torch-2\.13 on the nodes .* \(commit changed from c0"):
        again(first)
    assert len(nodes.plays) == launched


def test_a_run_in_a_folder_that_its_nodes_shared_is_made_again_in_the_new_one(
    tmp_path: Path,
) -> None:
    matrix = small_matrix(defaults={"nodes": 2})
    was = tmp_path / "runs" / "m-rack" / "cell" / "repeat1" / "attempt1"
    cluster = slurm_cluster()
    (cell,) = matrix.cells
    run = make_run(matrix, cell, cluster, campaign="m-rack", folder=PurePosixPath(was))
    now = tmp_path / "runs" / "rerun-m-rack" / "cell" / "repeat3" / "attempt1"
    again = rerun._again(run, "rerun-m-rack", Attempt(now, run.cell.id, 3, 1))
    assert [node.dir for node in again.nodes] == [
        str(now / "nodes" / f"{rank:04d}-rank{rank}") for rank in range(2)
    ]
    assert str(was) not in json.dumps(again.to_json())


SECRET = replace(CLUSTER, secrets=("HF_TOKEN", "OTHER_TOKEN"))


def test_a_strangers_run_is_given_only_the_secrets_that_it_was_given(first: Path) -> None:
    found = rerun.recorded(first)
    asks = replace(found, run=replace(found.run, secrets=("HF_TOKEN",)))
    with pytest.raises(UserError, match="the secrets HF_TOKEN, which the inventory rack does"):
        rerun.adopted(asks, CLUSTER)
    run = rerun.next_run(rerun.adopted(asks, SECRET), SECRET, first)
    assert run.secrets == ("HF_TOKEN",)
    assert "it is given the secret HF_TOKEN of your inventory" in [
        *would_execute(run, asks.run, asks.settings, ())
    ]


def test_a_strangers_run_that_is_not_as_it_was_shown_is_not_made(
    first: Path, nodes: Nodes, tmp_path: Path
) -> None:
    """Such as where another rerun was made meanwhile, so that this one's folder is another."""
    found = rerun.adopted(rerun.recorded(first), CLUSTER)
    launched = len(nodes.plays)

    def listed(run: Run) -> list[str]:
        return [*would_execute(run, found.run, found.settings, ())]

    def go(**agreed: Any) -> None:
        rerun.rerun(found, CLUSTER, engine=nodes, view=view(), runs=tmp_path, **agreed)

    with pytest.raises(UserError, match="not what was shown any more"):  # nobody was asked
        go()
    assert len(nodes.plays) == launched
    assert not (tmp_path / "rerun-m-rack").exists()
    shown = listed(rerun.next_run(found, CLUSTER, tmp_path))
    go(agreed=lambda run: listed(run) == shown)
    with pytest.raises(UserError, match="not what was shown any more"):
        go(agreed=lambda run: listed(run) == shown)
    assert len(list((tmp_path / "rerun-m-rack").glob(names.ATTEMPTS))) == 1


def test_a_strangers_run_does_not_grow_a_campaign_of_ones_own(
    first: Path, nodes: Nodes, tmp_path: Path
) -> None:
    bench(replace(MATRIX, name="rerun-x"), CLUSTER, tmp_path, engine=nodes, view=view())
    found = rerun.adopted(rerun.recorded(first), CLUSTER)
    found = replace(found, run=replace(found.run, campaign="rerun-x-rack"))
    before = (tmp_path / "rerun-x-rack" / names.CAMPAIGN).read_bytes()
    with pytest.raises(UserError, match="is of a matrix, not of reruns"):
        rerun.rerun(found, CLUSTER, engine=nodes, view=view(), runs=tmp_path, agreed=lambda _: True)
    assert (tmp_path / "rerun-x-rack" / names.CAMPAIGN).read_bytes() == before


@pytest.mark.parametrize("folder", ["/usr/bin", "/root/.ssh", "/opt/tb/runs/../../../root"])
@pytest.mark.parametrize("cluster", [slurm_cluster(), small_cluster(root="/data/me")])
def test_whatever_a_stranger_recorded_of_folders_nothing_of_the_argv_is_renamed(
    first: Path, tmp_path: Path, cluster: Cluster, folder: str
) -> None:
    found = rerun.recorded(first)
    cell = replace(
        found.run.cell,
        system="command",
        pin="",
        dataset="",
        parameters={
            "argv": ["/usr/bin/env", f"{folder}/x", "/opt/tb"],
            "cwd": "/",
            "log": "nanogpt",
        },
        env={"NOTE": f"{folder}:/opt/tb"},
    )
    theirs = [
        replace(node, runs=folder, dir=f"{folder}/nodes/0000-n1", scratch=folder, cwd=folder)
        for node in found.run.nodes
    ]
    found = replace(found, run=replace(found.run, cell=cell, nodes=tuple(theirs)))
    adopted = rerun.adopted(found, cluster)
    run = rerun.next_run(adopted, cluster, tmp_path)
    for node in run.nodes:
        assert node.argv == ("/usr/bin/env", f"{folder}/x", "/opt/tb")
        assert node.env["NOTE"] == f"{folder}:/opt/tb"
        assert not {node.dir, node.runs, node.scratch} & {folder, f"{folder}/nodes/0000-n1"}
    lines = [*would_execute(run, found.run, found.settings, ())]
    assert f"  run  /usr/bin/env {folder}/x /opt/tb" in lines


def test_each_place_of_a_strangers_words_is_shown_as_plain_ascii(first: Path) -> None:
    evil = "a\x1b]0;b\x07\u202e\u200b\x9b2J\r\n  run  forged"
    found = rerun.recorded(first)
    parts: dict[str, Any] = {"argv": (evil,), "cwd": evil, "scratch": evil, "step": (evil,)}
    parts |= {"env": {"E": evil}, "files": {"f": evil, evil: ""}, "after": ((evil,),)}
    run = replace(
        found.run,
        rerun_of=evil,
        master_address=evil,
        secrets=("S",),
        cell=replace(found.run.cell, name=evil, parameters={"p": evil, evil: [evil]}),
        setup=(evil,),
        teardown=(evil,),
        nodes=tuple(replace(node, **parts, host=evil) for node in found.run.nodes),
    )
    settings = replace(found.settings, trainbench=evil, environment={evil: evil})
    scheduled = [{"script": evil, "step": [evil]}]
    both = ((run, found.run), (found.run, run), (run, run))
    for here, was in both:
        for line in would_execute(here, was, settings, scheduled):
            assert all(" " <= letter <= "~" for letter in line)
            assert not line.startswith("  run  forged")
    shown = "\n".join(would_execute(run, found.run, settings, scheduled))
    word = ExactWord(evil)
    for line in (
        f"  cwd  {word}",
        f"  env  E={word}",
        f"  step {word}",
        f"  first, by bash: {word}",
        f"  at last, by bash: {word}",
        f"  file {word}",
        f"    | {ExactLine(evil.partition(chr(10))[0])}",
        f"  run  {word}",
        f"  then {word}",
        f"  scratch: recorded '', here {word}",
        f"    argv + {word} {word} {word}",
        f"address of node rank 0: recorded 10.0.0.1, here {word}",
        "    |   run  forged",
    ):
        assert line in shown


def test_a_folder_without_a_run_is_one_sentence(
    first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = tmp_path / "m-rack"
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / names.RUN).write_text('{"cell": {}}')
    for path, words in (
        (campaign, "name a run's folder, such as "),
        (tmp_path / "none", "there is no run.json in"),
        (tmp_path / "old", "run.json has no campaign, so this version cannot run it again"),
        (first, "the run was made on the inventory rack; name it with -i"),
    ):
        assert main(["rerun", str(path)]) == 2
        assert words in capsys.readouterr().err
