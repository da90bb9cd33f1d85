"""How far a campaign is in Prometheus' text format, as its own library reads it."""

import math
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from runner.launch import metrics_file as file
from runner.launch.campaign_status import Running, Status
from runner.launch.metrics_file import to_prometheus

RUN = Running("a=1", 2, 1, 12.5, "/f", iteration=3, samples_per_s=98.5, loss=math.nan, power_w=700)


def read(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name.removeprefix("trainbench_"), frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_all_that_is_known_is_written_once() -> None:
    status = Status("c", 9, ended={"ok": 4, "failed": 1}, runs_now=(RUN,), others=1, left_s=60.0)
    found = read(to_prometheus(status))

    def of(name: str, **labels: str) -> float:
        return found.pop((name, frozenset({"campaign": "c", **labels}.items())))

    assert of("campaign_live") == 1
    assert of("runs") == 9
    assert of("runs_ended", status="ok") == 4
    assert of("runs_ended", status="failed") == 1
    assert of("runs_waiting") == 2
    assert of("left_seconds") == 60
    run = {"cell": "a=1", "repeat": "2"}
    assert of("run_iteration", **run) == 3
    assert of("run_samples_per_second", **run) == 98.5
    assert math.isnan(of("run_loss", **run))
    assert of("run_power_watts", **run) == 700
    assert of("run_elapsed_seconds", **run) == 12.5
    assert not found


def test_names_are_read_back_as_they_are() -> None:
    evil = 'a"}\n# TYPE x counter\\n\\'
    text = to_prometheus(Status(evil, 1, runs_now=(Running(evil, 1, 1, 1.0, "", loss=1.0),)))
    assert {dict(labels)["campaign"] for _, labels in read(text)} == {evil}
    assert {dict(labels).get("cell", evil) for _, labels in read(text)} == {evil}
    assert to_prometheus(Status("half \ud800", 1)).isascii()


def test_a_file_that_cannot_be_written_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(file, "EVERY_S", 0.01)
    (tmp_path / "a").touch()
    with file.metrics_file(tmp_path / "a" / "x.prom", lambda: Status("c", 1)):
        time.sleep(0.2)
    assert capsys.readouterr().err.count("was not written") == 1


def test_nothing_is_written_before_a_campaign_began(tmp_path: Path) -> None:
    with file.metrics_file(tmp_path / "x.prom", lambda: Status("", 0)):
        pass
    assert not list(tmp_path.iterdir())
