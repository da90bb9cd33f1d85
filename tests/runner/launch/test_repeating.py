"""Repeats until samples/s is known: which cells run once more, and how a killed bench resumes."""

import io
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from runner.base.console import Screen
from runner.base.errors import UserError
from runner.folder.campaign import Campaign
from runner.launch import plan_summary
from runner.launch.bench import Tally, bench
from runner.launch.engine import Wanted
from runner.launch.view import View
from runner.results.records import records_of
from runner.terms.cell import Matrix
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.documents import rows
from tests.runner.launch.test_campaign import FAILED, Ending, Nodes

UNTIL = replace(small_matrix({"zero_stage": [0, 1]}, repeats=6), until_percent=5.0)
CALM, NOISY = (10.0, 10.02, 9.98), (10.0, 11.0, 9.0)


def endings(*rounds: Iterable[float]) -> list[Ending]:
    return [{"steps": 50, "rate": rate} for a_round in rounds for rate in a_round]


class Benched:
    """Benches of one campaign, and what they printed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.nodes, self.printed = folder, Nodes(), ""

    def go(self, matrix: Matrix = UNTIL, ended: Iterable[Ending] = ()) -> Tally:
        self.nodes.endings = list(ended)
        screen = io.StringIO()
        view = View(Screen(file=screen, width=200))
        try:
            return bench(matrix, small_cluster(), self.folder, engine=self.nodes, view=view)
        finally:
            self.printed = screen.getvalue()

    @property
    def repeats(self) -> dict[str, tuple[int, float | None]]:
        """Cell to its repeats in the table, and whose rule they followed."""
        table = rows(records_of(Campaign(self.folder / "m-rack"), self.folder))
        return {
            row["cell"]: (len(row["runs"]), row["figures"]["repeats_until_percent"])
            for row in table
        }


@pytest.fixture
def benched(tmp_path: Path) -> Benched:
    return Benched(tmp_path)


def test_a_cell_that_is_known_has_three_repeats_and_a_noisy_one_more(benched: Benched) -> None:
    three = zip(CALM, NOISY, strict=True)
    assert benched.go(ended=endings(*three, [10.0], [10.0], [10.0])).exit_code == 0
    assert benched.repeats == {"zero_stage=0": (3, 5.0), "zero_stage=1": (6, 5.0)}
    assert benched.nodes.attempts[6:] == [f"zero_stage=1 r{n}a1" for n in (4, 5, 6)]
    assert "zero_stage=0: ± 0." in benched.printed
    assert "% after 3 repeats\n" in benched.printed
    assert "% after 6 repeats; not below 5 %" in benched.printed


def test_it_stops_as_soon_as_the_interval_is_short(benched: Benched) -> None:
    rates = (10.0, 10.3, 9.7)
    benched.go(ended=endings(*zip(CALM, rates, strict=True), [10.0], [10.0]))
    assert benched.repeats["zero_stage=1"] == (4, 5.0)


def test_a_killed_bench_goes_on_by_what_is_on_disk(benched: Benched) -> None:
    class KilledError(Exception):
        """What ends the bench."""

    def kill() -> None:
        if len(benched.nodes.plays) == 7:
            raise KilledError

    benched.nodes.before_play = kill
    three = zip(CALM, NOISY, strict=True)
    with pytest.raises(KilledError):
        benched.go(ended=endings(*three, [10.0], [10.0], [10.0]))
    benched.nodes.before_play = lambda: None
    benched.go(ended=endings([10.0], [10.0], [10.0]))
    assert benched.repeats["zero_stage=1"] == (6, 5.0)
    assert benched.nodes.attempts[7:] == [f"zero_stage=1 r{r}a{a}" for r, a in ((5, 2), (6, 1))]
    before = len(benched.nodes.plays)
    assert benched.go().exit_code == 0
    assert len(benched.nodes.plays) == before


def test_a_cell_whose_runs_all_fail_is_not_repeated_for_ever(benched: Benched) -> None:
    assert benched.go(ended=[FAILED] * 20).exit_code == 1
    assert len(benched.nodes.plays) == 6
    assert "none of 3 repeats ended ok" in benched.printed


def test_more_repeats_are_growth_and_fewer_hide(benched: Benched) -> None:
    three = list(zip(CALM, NOISY, strict=True))
    benched.go(replace(UNTIL, until_percent=None, repeats=3), endings(*three))
    assert benched.repeats["zero_stage=1"] == (3, None)
    benched.go(ended=endings([10.0], [10.0], [10.0]))
    assert benched.repeats == {"zero_stage=0": (3, 5.0), "zero_stage=1": (6, 5.0)}
    benched.go(replace(UNTIL, until_percent=None, repeats=3))
    assert benched.repeats == {"zero_stage=0": (3, None), "zero_stage=1": (3, None)}


def test_runs_of_before_are_judged_as_today_s_matrix_counts_them(benched: Benched) -> None:
    """5.4 % by today's rule, 4.5 % by that of three plain repeats; hidden repeats count again."""
    three = list(zip(CALM, (10.0, 10.18, 9.82), strict=True))
    plain = replace(UNTIL, until_percent=None, repeats=3)
    benched.go(plain, endings(*three))
    benched.go(ended=endings([10.0]))
    assert benched.repeats["zero_stage=1"] == (4, 5.0)
    benched.go(plain)
    before = len(benched.nodes.plays)
    benched.go()
    assert len(benched.nodes.plays) == before
    assert benched.repeats["zero_stage=1"] == (4, 5.0)


def test_every_cell_that_may_run_once_more_is_claimed(
    benched: Benched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed bench goes on with one cell; the other is repeated behind it."""
    three = zip(CALM, NOISY, strict=True)
    benched.go(replace(UNTIL, until_percent=None, repeats=3), endings(*three))
    next(benched.folder.glob("m-rack/zero_stage=0*/repeat3/attempt1/outcome.json")).unlink()
    claimed: list[Wanted] = []

    def claim(wanted: Wanted, *_: object) -> AbstractContextManager[None]:
        claimed.append(wanted)
        return nullcontext()

    monkeypatch.setattr(benched.nodes, "claimed", claim)
    benched.go(ended=endings((10.0,), (10.0,), (10.0,), (10.0,)))
    assert [[cell.name for cell in wanted.cells] for wanted in claimed] == [
        ["zero_stage=0", "zero_stage=1"]
    ]
    assert benched.repeats["zero_stage=1"] == (6, 5.0)


def test_three_repeats_must_end_ok(benched: Benched) -> None:
    ended = endings((10.0,), (10.0,), (10.0,), (10.01,), (10.01,))
    benched.go(ended=[*ended, FAILED, *endings((10.0,))])
    assert benched.repeats == {"zero_stage=0": (3, 5.0), "zero_stage=1": (4, 5.0)}


def test_a_plan_counts_what_is_sure_to_run(benched: Benched, tmp_path: Path) -> None:
    def words() -> str:
        return plan_summary.look(Campaign(tmp_path / "m-rack"), UNTIL, small_cluster()).words()

    assert "0 kept, 6 new" in words()
    assert "3 to 6 repeats of each cell, until samples/s is known to 5 %" in words()
    benched.go(
        replace(UNTIL, until_percent=None, repeats=3), endings(*zip(CALM, NOISY, strict=True))
    )
    assert "6 kept, 1 new" in words()


def test_an_interval_of_such_runs_is_wider(benched: Benched) -> None:
    three = list(zip(CALM, NOISY, strict=True))
    benched.go(replace(UNTIL, repeats=3), endings(*three))
    campaign = Campaign(benched.folder / "m-rack")
    stopped, _ = rows(records_of(campaign, benched.folder))
    plain, _ = rows([replace(r, until_percent=None) for r in records_of(campaign, benched.folder)])
    wide, narrow = (
        tuple(row["figures"][f"samples_per_s_ci_{end}"] for end in ("low", "high"))
        for row in (stopped, plain)
    )
    assert wide is not None
    assert narrow is not None
    assert wide[1] - wide[0] == pytest.approx(1.2 * (narrow[1] - narrow[0]), rel=0.01)


def test_a_bad_cell_is_refused_before_anything_is_touched(benched: Benched) -> None:
    bad = replace(small_matrix({"tensor_parallel": [3]}, repeats=6), until_percent=5.0)
    with pytest.raises(UserError):
        benched.go(bad)
    assert not list(benched.folder.iterdir())
