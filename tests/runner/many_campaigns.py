"""Many campaigns of one matrix, night after night: for tests of history and site, benchmarks."""

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runner.folder import names
from runner.folder.campaign import Campaign
from runner.terms.cell import Cell
from tests.runner import campaigns
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import OUT_OF_MEMORY, Story, inspected, torch_gpt

DAY_S = 86_400
Rate = Callable[[int, Cell], float]  # of a night and a cell: samples/s
FAILED = {"cause": "exit", "host": "n1", "message": "n1: exit code 1"}


def steady(sigma: float = 0.5) -> Rate:
    """Say 100 samples/s with noise of so many percent, the same for the same night and cell."""

    def rate(night: int, cell: Cell) -> float:
        return 100 * (1 + random.Random(f"{night} {cell.id}").gauss(0, sigma / 100))

    return rate


def stepping(at: int, percent: float, only: Callable[[Cell], bool], sigma: float = 0.5) -> Rate:
    """Say the same, with a step from a night on in some cells."""
    calm = steady(sigma)

    def rate(night: int, cell: Cell) -> float:
        return calm(night, cell) * (1 + percent / 100 * (night >= at and only(cell)))

    return rate


def nights(
    runs: Path,
    many: int,
    rate: Rate,
    *,
    axes: Mapping[str, Any] | None = None,
    steps: int = 40,
    fails: Callable[[int, Cell], bool] = lambda night, cell: False,
    kernel: Callable[[int], str] = lambda night: "Linux 6.1.0",
    then: str = "",
) -> list[Campaign]:
    """Write so many campaigns, a day apart: speed-00-rack, speed-01-rack, ..."""
    written = []
    for night in range(many):
        matrix = small_matrix(
            axes or {"zero_stage": [0, 1]},
            {"nodes": 2, "devices_per_node": 1, "train_iters": steps, "global_batch_size": 5040},
            name=f"speed-{night:02d}",
        )

        def story(cell: Cell, repeat: int, night: int = night) -> Story:
            speed = rate(night, cell)
            if fails(night, cell):
                log = torch_gpt(steps // 2, rate=speed, batch=5040, of=steps, then=OUT_OF_MEMORY)
                return Story({0: log, 1: "hello\n"}, FAILED)
            return Story({0: torch_gpt(steps, rate=speed, batch=5040, then=then), 1: "hello\n"})

        def facts(host: str, night: int = night) -> dict[str, Any]:
            return inspected(host, kernel=kernel(night))

        campaign = campaigns.write(runs, matrix, small_cluster(2, 1), story, facts=facts)
        for path in campaign.path.glob(f"{names.ATTEMPTS}/{names.OUTCOME}"):
            outcome = json.loads(path.read_text())
            outcome["started_at"] += night * DAY_S
            path.write_text(json.dumps(outcome))
        settings = json.loads((campaign.path / names.CAMPAIGN).read_text())
        settings["created_at"] = 1_789_999_000.0 + night * DAY_S
        (campaign.path / names.CAMPAIGN).write_text(json.dumps(settings))
        written.append(campaign)
    return written
