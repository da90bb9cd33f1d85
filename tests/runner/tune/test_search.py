"""A search over candidates: what it finds, what it costs, and the traps that runs hold."""

import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest

from runner.tune.beliefs import Earlier, Knowledge
from runner.tune.candidates import TuneCandidate
from runner.tune.final_race import SearchEnd
from runner.tune.search import NextRun, Search
from runner.tune.step_time import PRIOR_MEAN, components, log_times
from runner.tune.trials import Length, Trial
from tests.runner.tune.machine import Machine, Trap, grid

GRID = grid()
IDS = [one.id for one in GRID]


def predicted() -> dict[str, float]:
    """Step times as another machine would have them: each coefficient is off by up to half."""
    parts = components([one.layout for one in GRID if one.layout], Knowledge().rates)
    random = np.random.default_rng(3)
    logs = PRIOR_MEAN + random.uniform(-0.4, 0.4, len(PRIOR_MEAN))
    times = np.exp(log_times(parts, logs)[0] + random.normal(0, 0.04, len(GRID)))
    return dict(zip(IDS, times.tolist(), strict=True))


TIMES = predicted()
BEST, SECOND = sorted(IDS, key=lambda one: TIMES[one])[:2]


def test_the_fastest_is_found_with_few_runs() -> None:
    machine = Machine(TIMES)
    end = machine.finish(Search(GRID))
    assert (end.why, end.winner) == ("decided", BEST)
    assert len({trial.candidate for trial in machine.trials}) <= 0.5 * len(GRID)


def test_earlier_measurements_of_the_machine_save_runs() -> None:
    earlier = tuple(
        Earlier(replace(one.layout, layers=16), TIMES[one.id] * 0.68) for one in GRID if one.layout
    )
    machine, alone = Machine(TIMES), Machine(TIMES)
    assert machine.finish(Search(GRID, Knowledge(earlier=earlier))).winner == BEST
    alone.finish(Search(GRID))
    assert len(machine.trials) <= len(alone.trials)  # `make tuning` says how many are saved


def test_a_search_goes_on_from_its_trials_as_if_it_had_not_stopped() -> None:
    machine = Machine(TIMES)
    machine.finish(Search(GRID))
    again = [Trial(**json.loads(json.dumps(asdict(trial)))) for trial in machine.trials]
    for count in range(len(again)):
        step = Search(GRID).next(again[:count])
        assert isinstance(step, NextRun)
        assert (step.candidate, step.length) == (again[count].candidate, again[count].length)
    assert isinstance(Search(GRID).next(again), SearchEnd)


def test_more_candidates_of_a_grown_search_are_tried() -> None:
    small = Search([one for one in GRID if one.id != BEST])
    machine = Machine(TIMES)
    assert machine.finish(small).winner == SECOND
    assert machine.finish(Search(GRID)).winner == BEST


def test_fast_in_its_first_steps_and_slow_later() -> None:
    def slows_down(before: int, length: Length, time: float) -> float:
        return 0.8 * time if length == "short" else 1.6 * time

    machine = Machine(TIMES, {BEST: slows_down})
    assert machine.finish(Search(GRID)).winner == SECOND


def test_out_of_memory_late() -> None:
    def overflows(before: int, length: Length, time: float) -> Trial | float:
        return time if length == "short" else Trial(BEST, length, "out_of_memory")

    machine = Machine(TIMES, {BEST: overflows})
    assert machine.finish(Search(GRID)).winner == SECOND
    assert [trial.ending for trial in machine.ran(BEST)] == ["ok", "out_of_memory"]


@pytest.mark.parametrize("slow_run", [0, 1, 2])
def test_a_node_that_is_slow_for_one_run(slow_run: int) -> None:
    def slow(before: int, length: Length, time: float) -> float:
        return 1.8 * time if before == slow_run else time

    machine = Machine(TIMES, {BEST: slow})
    assert machine.finish(Search(GRID)).winner == BEST


def test_a_lost_node_is_tried_again_and_is_not_slow() -> None:
    def lost(before: int, length: Length, time: float) -> Trial | float:
        return Trial(BEST, length, "lost_node") if before == 0 else time

    machine = Machine(TIMES, {BEST: lost})
    assert machine.finish(Search(GRID)).winner == BEST
    whys = [Trial(one, "short", "lost_node") for one in [IDS[0]] * 3]
    step = Search(GRID).next(whys)
    assert isinstance(step, NextRun)
    assert step.candidate != IDS[0]  # lost three times: the others go on


@pytest.mark.parametrize(
    "wrong",
    [
        Trial(BEST, "short", "refused", reason="its loss is NaN"),
        Trial(BEST, "short", "refused", 0.001, reason="learns something else than the baseline"),
        Trial(BEST, "short", "failed"),
        Trial(BEST, "short", "ok", float("nan")),
        Trial(BEST, "short", "ok", 0.0),
        Trial(BEST, "short", "ok", None),
    ],
)
def test_what_diverges_or_says_nothing_is_no_winner(wrong: Trial) -> None:
    machine = Machine(TIMES, {BEST: lambda *_: wrong})
    assert machine.finish(Search(GRID)).winner == SECOND
    assert len(machine.ran(BEST)) == 1


def test_all_equal_the_one_with_least_memory_wins() -> None:
    same = dict.fromkeys(IDS, 0.5)
    small = IDS[7]

    def fit(id_: str) -> Trial:
        return Trial(id_, "long", "ok", 0.5, memory_mib=900 if id_ == small else 1000)

    traps = {id_: (lambda *_, id_=id_: replace(fit(id_), length=_[1])) for id_ in IDS}
    machine = Machine(same, traps)
    end = machine.finish(Search(GRID))
    assert end.why == "equal"
    long = [trial.candidate for trial in machine.trials if trial.length == "long"]
    finalists = {one for one in long if long.count(one) > 1}
    assert len(finalists) > 1
    assert end.winner == (small if small in finalists else end.winner)


def test_noise_crowns_nobody() -> None:
    """Equal candidates with noisy runs: the answer is not that one is faster."""
    random = np.random.default_rng(1)

    def noisy(before: int, length: Length, time: float) -> float:
        return float(time * (1 + 0.03 * random.standard_normal()))

    machines = [Machine(dict.fromkeys(IDS, 0.5), dict.fromkeys(IDS, noisy)) for _ in range(20)]
    ends = [one.finish(Search(GRID[:6])).why for one in machines]
    assert ends.count("decided") <= 2


def test_none_legal_and_none_runs() -> None:
    for nothing in ([replace(one, refused="heads do not divide") for one in GRID], []):
        with pytest.raises(ValueError, match="no candidate is legal"):
            Search(nothing)
    traps = {one: (lambda *_, one=one: Trial(one, "short", "failed")) for one in IDS}
    machine = Machine(TIMES, traps)
    assert machine.finish(Search(GRID)) == SearchEnd("none_ran")
    assert len(machine.trials) == len(IDS)


def test_a_single_candidate_is_measured() -> None:
    machine = Machine(TIMES)
    end = machine.finish(Search(GRID[:1]))
    assert (end.why, end.winner) == ("alone", IDS[0])
    assert [trial.length for trial in machine.trials] == ["short", "long"]


def test_the_leader_is_the_fastest_so_far() -> None:
    machine = Machine(TIMES)
    search = Search(GRID)
    assert search.leader([]) is None
    machine.finish(search)
    so_far = machine.trials[:3]
    fastest = min((one.candidate for one in so_far), key=TIMES.__getitem__)
    assert search.leader(so_far) == fastest


def test_ids_are_unique() -> None:
    with pytest.raises(ValueError, match="one id"):
        Search([GRID[0], GRID[0]])


def test_a_command_without_a_layout_is_searched_by_its_words() -> None:
    candidates = [
        TuneCandidate(f"{workers}-{mode}", knobs={"workers": workers, "mode": mode})
        for workers in (1, 2, 4, 8, 16)
        for mode in ("eager", "compile", "graphs")
    ]
    effect = {"eager": 1.0, "compile": 0.7, "graphs": 0.9}
    times = {
        one.id: effect[str(one.knobs["mode"])] * (1 + 1 / int(str(one.knobs["workers"])))
        for one in candidates
    }
    machine = Machine(times)
    assert machine.finish(Search(candidates)).winner == "16-compile"
    assert len({trial.candidate for trial in machine.trials}) < len(candidates)


def test_forecasts_show_what_is_predicted_of_each() -> None:
    forecasts = Search(GRID).forecasts([])
    assert set(forecasts) == set(IDS)
    assert all(0.01 < one.step_s < 60 and one.spread > 0 for one in forecasts.values())


def test_a_rehearsal_says_how_many_runs_will_follow() -> None:
    search, machine = Search(GRID), Machine(TIMES)
    first = machine.run(search.rehearse([])[0])
    expected = search.rehearse([first])
    machine.finish(search)
    assert len(expected) == pytest.approx(len(machine.trials), abs=6)
    rest = search.rehearse(machine.trials)
    assert rest == []


def test_too_many_candidates_are_refused() -> None:
    many = [TuneCandidate(str(at), knobs={"at": at}) for at in range(3001)]
    with pytest.raises(ValueError, match="3,001 legal candidates are more than 3,000"):
        Search(many)
    Search([*many[1:], replace(many[0], refused="no")])


@pytest.mark.parametrize("seed", range(40))
def test_every_search_ends_whatever_runs_say(seed: int) -> None:
    random = np.random.default_rng(seed)
    endings = ("ok", "ended_early", "out_of_memory", "lost_node", "refused", "failed")
    trouble = float(random.choice([0.0, 0.1, 0.5]))

    def anything(id_: str) -> Trap:
        def run(before: int, length: Length, time: float) -> Trial:
            wrong = random.random() < trouble
            factors = (1.0, 0.1, 5.0, -1.0, 0.0, math.nan, math.inf, 1e-300)
            time *= float(random.choice(factors)) if wrong else 1.0
            ending = endings[random.integers(len(endings))] if wrong else "ok"
            return Trial(id_, length, ending, time, float(random.uniform(0, 1500)))  # type: ignore[arg-type]

        return run

    candidates = [replace(one, memory_mib=float(random.uniform(100, 2000))) for one in GRID]
    search = Search(
        candidates,
        margin_percent=float(random.choice([0, 1, 100])),
        device_memory_mib=float(random.choice([0, 1000])),
    )
    machine = Machine(TIMES, {id_: anything(id_) for id_ in IDS})
    with np.errstate(all="raise", under="ignore"):
        end = machine.finish(search)
    assert (end.winner is None) == (end.why == "none_ran")


def test_a_knob_that_nothing_reads_decides_nothing() -> None:
    twins = [
        replace(one, id=f"{one.id} {value}", knobs={"unread": value})
        for one in GRID
        for value in ("a", "b")
    ]
    machine = Machine({one.id: TIMES[one.id.split()[0]] for one in twins})
    end = machine.finish(Search(twins))
    assert end.winner in (f"{BEST} a", f"{BEST} b")
    assert end.why == "equal"
    assert len({trial.candidate for trial in machine.trials}) < len(GRID)
