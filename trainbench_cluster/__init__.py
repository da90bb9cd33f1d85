"""TrainBench for other programs: its command, and `frame` for notebooks.

A wheel's own files are in `shipped/` below this package, where no other program finds its `runner`,
`node` and `plugins`; in a checkout they are beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame

_HERE = Path(__file__).resolve().parent
SHIPPED = _HERE / "shipped"


def _folder() -> str:
    return str(SHIPPED if SHIPPED.is_dir() else _HERE.parent)


@contextmanager
def _found() -> Iterator[None]:
    """Let Python find what is shipped, as long as the block lasts."""
    sys.path.insert(0, _folder())
    try:
        yield
    finally:
        sys.path.remove(_folder())


def command() -> int:
    """Run `trainbench` with this process's command line; the exit code."""
    sys.path.insert(0, _folder())
    from runner.__main__ import command as run

    return run()


def frame(
    campaign: str | Path | None = None,
    *,
    runs: str | Path | None = None,
    baseline: str | None = None,
) -> DataFrame:
    """Return a campaign as a DataFrame, one row for each cell (runner/notebook.py).

    `campaign` is a name in `runs` (default: runs/ where one stands), a folder or an export; without
    one, the campaign run last. `baseline` is AXIS=VALUE.
    """
    with _found():
        from runner import notebook
        from runner.base.paths import DEFAULT_RUNS

        where = DEFAULT_RUNS if runs is None else runs
        return notebook.frame(campaign, runs=where, baseline=baseline)
