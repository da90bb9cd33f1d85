"""A pretended machine: candidates with known step times, and what goes wrong with them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runner.terms.layout import Layout
from runner.tune.candidates import TuneCandidate
from runner.tune.final_race import SearchEnd
from runner.tune.search import NextRun, Search
from runner.tune.trials import Length, Trial

# What a run says in place of its candidate's time: by how often the candidate ran, and how long.
Trap = Callable[[int, Length, float], Trial | float]


def layout(tensor: int, data: int, pipeline: int, micro: int, *, batch: int = 32) -> Layout:
    return Layout(
        devices=tensor * data * pipeline,
        devices_per_node=8,
        global_batch_size=batch,
        micro_batch_size=micro,
        sequence_length=1024,
        layers=24,
        hidden=1024,
        heads=16,
        tensor_parallel=tensor,
        data_parallel=data,
        pipeline_parallel=pipeline,
        recompute="full",
    )


def grid() -> list[TuneCandidate]:
    """Every layout of 8 devices with micro batches of 1 to 4."""
    sizes = [(t, d, 8 // t // d) for t in (1, 2, 4, 8) for d in (1, 2, 4, 8) if t * d <= 8]
    return [
        TuneCandidate(f"t{t}d{d}p{p}b{b}", layout(t, d, p, b))
        for t, d, p in sizes
        for b in (1, 2, 4)
        if 32 % (d * b) == 0
    ]


@dataclass
class Machine:
    """Runs what a search asks for, and keeps the trials."""

    times: Mapping[str, float]
    traps: Mapping[str, Trap] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)

    def run(self, step: NextRun) -> Trial:
        before = sum(trial.candidate == step.candidate for trial in self.trials)
        time: Trial | float = self.times[step.candidate]
        if step.candidate in self.traps:
            time = self.traps[step.candidate](before, step.length, self.times[step.candidate])
        if isinstance(time, Trial):
            return time
        early = step.end_above_s is not None and time > step.end_above_s
        return Trial(step.candidate, step.length, "ended_early" if early else "ok", time)

    def finish(self, search: Search) -> SearchEnd:
        """Run until the search ends, which it must after five runs per candidate at most."""
        for _ in range(5 * len(search.candidates) + 10):
            step = search.next(self.trials)
            if isinstance(step, SearchEnd):
                return step
            self.trials.append(self.run(step))
        raise AssertionError("the search does not end")

    def ran(self, candidate: str) -> Sequence[Trial]:
        return [trial for trial in self.trials if trial.candidate == candidate]
