"""A client of the MCP SDK runs a campaign on two real test nodes, from plan to claim."""

from pathlib import Path

import pytest

from tests.agent.client import Agent, trainer, with_changes, words_of
from tests.cluster.fixtures import RealNodes

pytestmark = pytest.mark.cluster


def test_an_agent_runs_a_campaign_on_two_nodes(
    tmp_path: Path, real_nodes: RealNodes, stand_in_root: Path
) -> None:
    root = trainer(stand_in_root, stand_in_root.with_name(f"{stand_in_root.name}-agent"))
    variables = {"cluster_root": str(root), "cluster_devices_per_node": 1}
    pair = real_nodes(2, variables=variables)
    agent = Agent(tmp_path / "matrices", pair.inventory, tmp_path / "runs")
    campaign = agent.bench("zero", with_changes(nodes=2))
    status, table, compared, expected = agent.calls(
        ("status", {"campaign": campaign}),
        ("collect", {"campaign": campaign}),
        ("compare", {"a": campaign, "b": campaign}),
        ("expect", {"campaign": campaign}),
    )
    assert status["status"]["ended"] == {"ok": 6}, status
    assert {row["nodes"] for row in table["table"]["rows"]} == {2}
    (claim,) = table["claims"]
    if "not_clean" not in words_of(claim):  # what a node noted: other programs were at work
        assert claim["claim"] == "faster", claim
        assert {each["claim"] for each in compared["claims"]} == {"no_difference_shown"}
    assert expected["tool"] == "expect"
    begun = agent.call("plan", matrix="zero.yaml")
    assert begun["plan"]["new"] == 0
    assert begun["budget"]["spent_node_hours"] > 0
