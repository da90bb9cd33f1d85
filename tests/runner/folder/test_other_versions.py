"""Campaigns of a version with features that this one does not have: read, without those."""

import json
from pathlib import Path
from typing import Any

import pytest

from runner.__main__ import main
from runner.folder import names
from runner.folder.campaign import Campaign
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, torch_gpt, write

FREE = ("env", "base_env", "environment", "placement", "files", "requires")  # of any keys
GONE = {"of_another_version": {"rate": 2.5, "kinds": ["flood"]}}


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    """Each mapping of its files has a key that nobody knows; its faults are of unknown kinds."""
    matrix = small_matrix({"zero_stage": [0, 1]}, {"nodes": 2, "faults": "kill_rank@30"})
    campaign = write(
        tmp_path / "runs", matrix, small_cluster(2, 1), lambda *_: Story({0: torch_gpt(50)})
    )
    for path in campaign.path.rglob("*.json"):
        content = more(json.loads(path.read_text(encoding="utf-8")))
        if path.name == names.CAMPAIGN:
            content["table"] = {"shape": "pivot", "values": ["samples_per_s", "flood_j"]}
        path.write_text(json.dumps(content), encoding="utf-8")
    return campaign


def more(content: Any, key: str = "") -> Any:
    """Put an unknown key into each mapping whose keys are known, and faults of another kind."""
    if isinstance(content, list):
        return [more(item, key) for item in content]
    if not isinstance(content, dict) or key in FREE:
        return content
    content = {name: more(value, name) for name, value in content.items()}
    if content.get("kind") == "kill_rank":
        content["kind"] = "flood"
    if "planned" in content:
        content |= {"kinds": ["flood"], "mtbf_s": 60.0, "seed": 7, "most": 5}
    return {**content, **GONE}


def test_what_this_version_does_not_know_is_passed_over(
    campaign: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "x.tar.gz"
    assert main(["export", str(campaign.path), "-o", str(archive)]) == 0
    for source in (str(campaign.path), str(archive)):
        collect = ["collect", "--campaign", source]
        capsys.readouterr()
        assert main([*collect, "--shape", "flat", "--format", "json"]) == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        assert [row["reason"] for row in rows] == ["", ""]
        assert [row["status"] for row in rows] == ["ok", "ok"]
        assert [row["figures"]["samples_per_s"] for row in rows] == [
            pytest.approx(100, rel=0.01)
        ] * 2
        assert main(collect) == 0
        table = capsys.readouterr().out
        assert "samples/s" in table
        assert "table: there is no column 'flood_j'" in table
    runs = str(campaign.path.parent)
    assert main(["status", "--runs", runs, "--campaign", campaign.name]) == 0
    assert main(["history", str(campaign.path)]) == 0
