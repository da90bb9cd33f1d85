"""`bench --report` and `--metrics`: files that follow a campaign while it runs."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.golden.places import stood_in
from tests.on_nodes.campaign import Bench

MATRIX: dict[str, Any] = {
    "name": "live",
    "defaults": {
        "system": "torch_gpt",
        "model": "gpt2-tiny",
        "train_iters": 30,
        "env": {"ACT": "wait"},  # at its third step, until the test has seen what it looks for
    },
    "axes": {"zero_stage": [0, 1]},
    "warmup_iters": 5,
    "time_limit_s": 600,
}
REFRESH = 'http-equiv="refresh"'


@pytest.fixture
def bench(tmp_path: Path, stand_in_root: Path) -> Bench:
    root = stood_in(tmp_path / "here", stand_in_root)
    env = {**MATRIX["defaults"]["env"], "WAIT_FOR": str(tmp_path / "seen")}
    return Bench(tmp_path, root, {**MATRIX, "defaults": {**MATRIX["defaults"], "env": env}})


def until(found: Callable[[], Any], patience_s: float = 300) -> Any:
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        if (value := found()) is not None:
            return value
        time.sleep(0.1)
    raise TimeoutError


def test_prometheus_reads_how_far_it_is(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bench.prom"

    def metrics() -> dict[str, list[tuple[dict[str, str], float]]]:
        return {
            family.name: [(sample.labels, sample.value) for sample in family.samples]
            for family in text_string_to_metric_families(file.read_text())
        }

    bench.start("--metrics", str(file))
    until(lambda: True if file.exists() and "trainbench_run_loss" in metrics() else None)
    begun = metrics()
    cell = {"campaign": "live-here", "cell": "zero_stage=0", "repeat": "1"}
    assert begun["trainbench_run_iteration"] == [(cell, 2.0)]
    ((_, rate),), ((_, tokens),) = (
        begun[f"trainbench_run_{name}_per_second"] for name in ("samples", "tokens")
    )
    assert tokens == pytest.approx(rate * 128)
    assert begun["trainbench_runs_waiting"][0][1] == 1
    assert begun["trainbench_campaign_live"][0][1] == 1
    (tmp_path / "seen").touch()
    code, said = bench.finish()
    assert code == 0, said
    ended = metrics()
    one = {"campaign": "live-here"}
    assert ended["trainbench_runs_ended"] == [({**one, "status": "ok"}, 2.0)]
    assert ended["trainbench_campaign_live"] == [(one, 0.0)]
    assert "trainbench_run_loss" not in ended
    assert [path.name for path in tmp_path.glob("*.prom*")] == ["bench.prom"]


def test_ctrl_c_ends_it_and_leaves_the_report(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    bench.start("--report", str(file))
    until(lambda: file.exists() or None)
    assert bench.process is not None
    bench.process.send_signal(signal.SIGINT)
    assert bench.finish()[0] == 130
    assert "interrupted" in file.read_text()
    assert REFRESH not in file.read_text()


def test_a_report_in_no_folder_is_refused(bench: Bench, tmp_path: Path) -> None:
    ended = bench.run("--report", str(tmp_path / "none" / "x.html"))
    assert ended.returncode == 2
    assert "name a file in a folder that exists" in ended.stderr
