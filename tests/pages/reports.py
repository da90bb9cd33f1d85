"""Campaigns as reports meet them, and their pages as `collect --format html` writes them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runner.commands.collect import print_campaign
from runner.folder import names
from runner.folder.campaign import Campaign
from runner.folder.queued import Queued
from runner.folder.stored import write_json
from runner.terms.cell import Cell
from runner.terms.record import UNDER_WAY
from tests.golden.test_hostile_text import hostile_campaign
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import (
    LIMIT,
    LOST,
    OUT_OF_MEMORY,
    Story,
    forty,
    inspected,
    torch_gpt,
    write,
)

DATA = Path(__file__).parents[1] / "data"
H200 = DATA / "torch_gpt" / "h200_4_devices"


def forty_cells(runs: Path) -> str:
    """Three systems, up to 4 nodes, failures, one odd node."""
    forty(runs)
    return "zero_stage=0"


def every_status(runs: Path) -> None:
    """A cell of each status that a run can have, and two repeats of most of them."""
    ends: dict[str, Story | None] = {
        "ok": Story({0: torch_gpt(20)}),
        "diverged": Story({0: _diverged(torch_gpt(20))}),
        "failed": Story(
            {0: torch_gpt(7, of=20, then=OUT_OF_MEMORY)},
            {"cause": "exit", "host": "n1", "message": "n1: exit code 1"},
        ),
        "timed_out": Story({0: torch_gpt(9, of=20)}, LIMIT),
        "stalled": Story(
            {0: torch_gpt(5, of=20)},
            {"cause": "stalled", "host": "n1", "message": "n1: printed nothing for 600 s"},
        ),
        "node_lost": Story({0: torch_gpt(11, of=20)}, {**LOST, "host": "n2"}),
        "interrupted": Story(
            {0: torch_gpt(3, of=20)},
            {"cause": "interrupted", "host": None, "message": "Ctrl-C"},
        ),
        "unfinished": Story({0: torch_gpt(12, of=20)}),
        "no_steps": Story({0: "nothing to train\n"}),
        "ended_early": Story(
            {0: torch_gpt(6, of=20)},
            {"cause": "ended_early", "host": None, "message": "1.9 times the fastest's step"},
        ),
        "did_not_run": Story({0: OUT_OF_MEMORY}),
        "unreadable": Story({0: torch_gpt(20)}),
        "running": Story({0: torch_gpt(4, of=20)}),
        "queued": Story({0: ""}),
        "pending": None,
    }
    order = list(ends)
    matrix = small_matrix(
        {"seed": [*range(len(order))]},
        {"train_iters": 20, "nodes": 2, "global_batch_size": 16},
        name="statuses",
        repeats=2,
        warmup_iters=3,
    )

    def story(cell: Cell, repeat: int) -> Story | None:
        ended = order[cell.parameters["seed"]]
        return None if ended in UNDER_WAY and repeat == 2 else ends[ended]

    campaign = write(runs, matrix, small_cluster(), story)
    folders = {
        status: campaign.attempt_path(cell.id)
        for status, cell in zip(order, matrix.cells, strict=True)
    }
    (folders["unreadable"] / names.RUN).write_text('{"cell": ')
    for status in UNDER_WAY:
        (folders[status] / names.OUTCOME).unlink()
    write_json(folders["queued"] / names.SUBMITTED, {"job_id": "7"})
    write_json(folders["queued"] / names.QUEUE, Queued(reason="Resources", position=1).to_json())


def _diverged(log: str) -> str:
    """The log with a last loss that is no number."""
    before, step, last = log.rpartition("step=20/20")
    last = re.sub(r"loss=\S+ grad_norm=\S+", "loss=nan grad_norm=nan", last)
    return before + step + last.replace(" nan=0", " nan=1")


def failures(runs: Path) -> None:
    """Two nodes, three repeats, and failures as torchrun logs them."""
    logs = sorted((DATA / "torchrun").glob("*.log"))
    matrix = small_matrix(
        {"zero_stage": [0, 1, 2, 3]},
        {"train_iters": 20, "nodes": 2, "global_batch_size": 16, "env": {"NCCL_DEBUG": "WARN"}},
        name="failures",
        repeats=3,
        warmup_iters=3,
    )

    def story(cell: Cell, repeat: int) -> Story | None:
        stage = cell.parameters["zero_stage"]
        if stage == 0 or (repeat == 1 and stage == 1):
            return Story({0: torch_gpt(20, rate=100 - 3 * stage + repeat), 1: ""})
        text = logs[(stage + repeat) % len(logs)].read_text(encoding="utf-8")
        halt = {"cause": "exit", "host": "n2", "message": "n2: exit code 1"}
        return Story({0: torch_gpt(stage * repeat, of=20), 1: text}, halt)

    write(runs, matrix, small_cluster(), story)


def on_gpus(runs: Path) -> str:
    """Four H200: a recorded run, and the same one slower and faster by its cell's settings."""
    log = (H200 / "launcher.log").read_text(encoding="utf-8")
    samples = (H200 / "samples.csv").read_text(encoding="utf-8")
    matrix = small_matrix(
        {"zero_stage": [0, 1], "activation_checkpointing": ["none", "full"]},
        {
            **{"devices_per_node": 4, "global_batch_size": 64, "micro_batch_size": 8},
            **{"train_iters": 60, "precision": "bf16", "model": "gpt2-medium"},
        },
        name="h200",
        repeats=3,
        warmup_iters=10,
    )
    device = {"name": "NVIDIA H200", "memory_mib": "143771", "driver": "570.172.08"}

    def story(cell: Cell, repeat: int) -> Story:
        slower = 1 + 0.07 * cell.parameters["zero_stage"] + 0.002 * repeat
        slower += 0.3 * (cell.parameters["activation_checkpointing"] == "full")
        scaled = _times(_times(log, "step_time_ms", slower), "samples_per_s", 1 / slower)
        return Story({0: scaled}, samples={0: samples}, wall_s=13.1)

    def facts(host: str) -> dict[str, Any]:
        return inspected(host, devices=[device] * 4)

    campaign = write(
        runs, matrix, small_cluster(1, 4, name="dgx", device="cuda"), story, facts=facts
    )
    for path in campaign.path.glob(f"{names.ATTEMPTS}/{names.NODES}/*"):
        (path / names.TIMELINE).write_bytes((H200 / "timeline.jsonl").read_bytes())
    return "zero_stage=0"


def _times(log: str, key: str, factor: float) -> str:
    return re.sub(rf"(?<={key}=)[\d.]+", lambda found: f"{float(found[0]) * factor:.2f}", log)


def hostile(runs: Path) -> None:
    """HTML, scripts, SVG and terminal codes in every field of a folder that a page shows."""
    hostile_campaign(runs)
    svg = (
        '<svg onload="document.title=1"><script>document.title = 2</script></svg></pre></template>'
    )
    for path in runs.glob(f"*/{names.ATTEMPTS}/{names.NODES}/*/{names.LOG}"):
        with path.open("a", encoding="utf-8") as stream:
            stream.write(f"\x1b[31m{svg}\x1b[0m\x1b]0;t\x07 {json.dumps(svg)}\r{svg}\u202eend\n")


CAMPAIGNS: dict[str, Callable[[Path], str | None]] = {
    "forty": forty_cells,
    "statuses": every_status,
    "failures": failures,
    "gpus": on_gpus,
    "hostile": hostile,
}


def page_of(name: str, folder: Path, *, logs_mib: float = 5.0) -> Path:
    """Make a campaign in a folder, and its page beside it."""
    runs, page = folder / "runs", folder / f"{name}.html"
    baseline = CAMPAIGNS[name](runs)
    (path,) = (path.parent for path in runs.glob(f"*/{names.CAMPAIGN}"))
    campaign = Campaign(path)
    with campaign.locked():  # as of a bench that goes on
        for attempt in (path for path in path.glob(names.ATTEMPTS)):
            if (attempt / names.RUN).exists() and not (attempt / names.OUTCOME).exists():
                (attempt / names.RUN).touch()
        print_campaign(runs, campaign.name, baseline, "html", page, logs_mib=logs_mib)
    return page
