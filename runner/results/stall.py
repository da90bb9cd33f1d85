"""Where the processes of a stalled run stood, and whether one of them held up the others. Pure.

The supervisor has every Python process write its stack, and puts a line before each; what follows
is faulthandler's text or py-spy's. It is told as it was seen: a rank that is stopped, or in a wait
that no signal ends, holds up the others; one rank that alone is in no collective may.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from runner.logs.numbers import whole_number

LABEL = re.compile(
    r"^\[trainbench: ((?:rank \d+, )?pid \d+(?:, [^\n]*)?), stood at:\]$", re.MULTILINE
)
_RANK = re.compile(r"rank (\d{1,9}),")
# `  File "train.py", line 5 in step` of faulthandler, `    step (train.py:5)` of py-spy.
_FRAME = re.compile(
    r'^\s+(?:File "(.+)", line (\d+) in (.+)|(\S(?:[^ ]| (?!\())*+) \((.+):(\d+)\))$'
)
_HELD = ("stopped", "in a wait that no signal ends")
# Python files in which a rank waits for others; a backward pass ends with a wait, too.
_WAITS = ("torch/distributed/", "torch/autograd/graph.py", "oneflow/framework/", "deepspeed/comm/")
_TELLING = 12  # innermost frames that are looked at
LONGEST_FRAME = 1000  # letters of a line that is one


@dataclass(frozen=True)
class RankState:
    """One rank: the node, whether it was `held` and how, its innermost frame, whether it waited."""

    host: str
    rank: int
    held: str
    frame: str
    waited: bool


def read_stacks(host: str, text: str) -> list[RankState]:
    """Read the ranks of one node, from its log or its stacks; a process without one is no
    worker.
    """
    parts = LABEL.split(text)
    ranks = []
    for label, stack in zip(parts[1::2], parts[2::2], strict=True):
        rank = _RANK.search(label)
        if rank is None:
            continue
        frames = _frames(stack)
        reason_held = next((reason for reason in _HELD if label.endswith(reason)), "")
        # A module that is imported runs its lines, and waits for nobody.
        called = [file for file, _, name in frames[:_TELLING] if name != "<module>"]
        waited = any(wait in file for file in called for wait in _WAITS)
        frame = "{}:{} in {}".format(*frames[0]) if frames else ""
        ranks.append(RankState(host, whole_number(rank[1]) or 0, reason_held, frame, waited))
    return ranks


def _frames(stack: str) -> list[tuple[str, str, str]]:
    """List (file, line, function) of the main thread's frames, innermost first."""
    threads = re.split(r"^(?=(?:Current thread|Thread) )", stack, flags=re.MULTILINE)
    main = [
        thread
        for thread in threads
        if thread.startswith("Current thread") or '"MainThread"' in thread
    ]
    frames = []
    for line in (main or threads)[-1].splitlines():
        if match := _FRAME.match(line[:LONGEST_FRAME]):
            file, number, name = match[1] or match[5], match[2] or match[6], match[3] or match[4]
            frames.append((file, number, name))
        elif frames and not line.strip():
            break
    return frames


def holding(ranks: Sequence[RankState]) -> list[RankState]:
    """Return the ranks that the others waited for; none where it cannot be said."""
    holders = [rank for rank in ranks if rank.held]
    if holders:
        return holders if len(holders) < len(ranks) else []
    apart = [rank for rank in ranks if not rank.waited and rank.frame]
    if (
        len(apart) == 1
        and len(ranks) > 1
        and all(rank.waited for rank in ranks if rank not in apart)
    ):
        return apart
    return []


def waited_for(ranks: Sequence[RankState]) -> str:
    """Say which rank the others waited for, in a few words; nothing where it cannot be said."""
    holders = holding(ranks)
    if holders and holders[0].held:
        return f"the others waited for {_rank_names(holders)}, which was {holders[0].held}"
    if holders:
        return (
            f"{_rank_names(holders)} hung at {holders[0].frame}, the others waited in a collective"
        )
    return ""


def _rank_names(ranks: Sequence[RankState]) -> str:
    first_name = f"rank {ranks[0].rank} ({ranks[0].host})"
    return first_name if len(ranks) == 1 else f"{first_name} and {len(ranks) - 1} more"
