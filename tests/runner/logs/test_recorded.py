"""Recorded logs of a family (tests/data/<family>) are recognised, and no other family takes them."""

from pathlib import Path

import pytest

from runner.base.paths import PROJECT
from runner.logs.kinds import KINDS, families
from runner.logs.recognise import recognise
from tests.runner.logs.everything import read as read_by_all

DATA = PROJECT / "tests" / "data"
LOGS = [
    path
    for family in families()
    for path in sorted((DATA / family).rglob("*"))
    if path.suffix in (".log", ".out", ".txt")
]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: str(path.relative_to(DATA)))
def test_a_log_is_its_familys_alone(path: Path) -> None:
    (family, *_) = path.relative_to(DATA).parts
    found = recognise([path])
    assert found.kind is not None
    assert found.family == family
    assert found.system in found.kind.systems()
    took = {KINDS[name].family() for name, steps in read_by_all(path.read_bytes()).items() if steps}
    assert took == {family}
