"""Curves that overlap: which, and how each is drawn so that it is seen. Pure.

Cells that train the same have the same losses, and the last one drawn would hide the others.
"""

from collections.abc import Sequence
from typing import NamedTuple

from runner.figures.run_curves import Points

LINE = 0.006  # of a frame's height: what one line hides of another
_DASH = 5.0  # of one curve, in line widths, before the next one's turn


class Coinciding(NamedTuple):
    """Curves, by their places, that one line would hide; `exact`: each has the numbers of the one
    before it.
    """

    members: tuple[int, ...]
    exact: tuple[bool, ...]

    def sentence(self, names: Sequence[str]) -> str:
        """Write `a = b ≈ c`, which are equal and which nearly so; of all of several `all 4 (=)`."""
        first_curve, *following = self.members
        if len(self.members) == len(names) > 2:
            return f"all {len(names)} ({'=' if all(self.exact[1:]) else '≈'})"
        signs = ("=" if same else "≈" for same in self.exact[1:])
        pairs = zip(signs, following, strict=True)
        return " ".join(
            [names[first_curve], *(f"{sign} {names[member]}" for sign, member in pairs)]
        )


def coinciding(curves: Sequence[Points], height: float) -> list[Coinciding]:
    """Find the curves that lie within a line's width of each other in a frame of that height."""
    groups = []
    unmatched = list(range(len(curves)))
    while unmatched:
        reference = unmatched[0]
        same = [index for index in unmatched if curves[index] == curves[reference]]
        similar = [
            p
            for p in unmatched
            if p not in same and _coincide(curves[reference], curves[p], height)
        ]
        similar.sort(key=lambda index: curves[index])  # equal ones beside each other
        unmatched = [index for index in unmatched if index not in (*same, *similar)]
        members = (*same, *similar)
        if len(members) > 1:
            pairs = zip(members, (reference, *members), strict=False)
            groups.append(Coinciding(members, tuple(curves[a] == curves[b] for a, b in pairs)))
    return groups


def _coincide(points: Points, other_points: Points, height: float) -> bool:
    if len(points) != len(other_points):
        return False
    pairs = zip(points, other_points, strict=True)
    return all(a == x and abs(b - y) <= LINE * height for (a, b), (x, y) in pairs)


def taking_turns(of: int) -> list[tuple[float, tuple[float, float]]]:
    """Return the dashes of so many curves on one path, as matplotlib's (offset, (on, off)).

    Each is there where the others have their gaps.
    """
    gap = (of - 1) * _DASH
    return [((of - turn) % of * _DASH, (_DASH, gap)) for turn in range(of)]
