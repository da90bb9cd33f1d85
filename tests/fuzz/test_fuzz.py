"""What the suite `fuzz` is made of: cases by their seed, and oracles that find what is wrong."""

import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from runner.base.errors import UserError
from runner.inventory.inventory import load_inventory
from runner.terms.record import Interval
from tests.conftest import ROOT
from tests.fuzz.case import FindingError, printable, strict
from tests.fuzz.fuzz import chance_of, fuzz
from tests.fuzz.logs import Figures, Logs
from tests.fuzz.mutation import mutated
from tests.fuzz.targets import TARGETS
from tests.runner.logs.made_lines import megatron

CASES, SECONDS, SEED = 200, 60, 12


def test_some_cases_of_each_kind_have_no_finding() -> None:
    *_, tallies = fuzz(CASES, SECONDS, SEED, workers=2)
    found = {str(tally.inputs[why]): why for tally in tallies.values() for why in tally.findings}
    assert found == {}
    assert all(tally.cases for tally in tallies.values())


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_case_is_made_of_its_seed_kind_and_number_alone(target: object) -> None:
    chosen = next(each for each in TARGETS if each is target)
    made = [chosen.make(chance_of(7, chosen.name, 3)) for _ in range(2)]
    assert made[0] == made[1]
    assert chosen.make(chance_of(7, chosen.name, 4)) != made[0]
    assert sum(each.share for each in TARGETS) == 100


def test_a_time_that_follows_from_batch_size_and_rate_is_no_finding(tmp_path: Path) -> None:
    whole = [megatron(iteration, rate=1.1) for iteration in (1, 2)]
    torn = megatron(3, rate=9.1).replace(" elapsed time per iteration (ms): 14131.6 |", "")
    assert "elapsed" not in torn
    Logs().judge("\n".join((*whole, torn, "")).encode(), tmp_path)


@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_inventory_is_a_sentence_of_the_real_program(seed: int, tmp_path: Path) -> None:
    """What the fuzzer stands in for: `ansible-inventory`, which takes a second."""
    shutil.copytree(ROOT / "inventory" / "vs", tmp_path / "vs")
    chance = random.Random(seed)
    for path in sorted((tmp_path / "vs").rglob("*.yml")):
        path.write_bytes(mutated(path.read_bytes(), chance))
    try:
        load_inventory(tmp_path / "vs")
    except UserError as error:
        printable("the inventory's fault", str(error))


def test_figures_that_are_not_in_the_log_are_found() -> None:
    stand = Figures(
        b"iteration 7/ 10 | elapsed time per iteration (ms): 250.0 | batch: 16 | 1.5e0 |"
    )
    stand.check(Interval(7, step_time_ms=250.0, samples_per_s=64.0, loss=1.5), "megatron_lm")
    for wrong in (
        Interval(9),
        Interval(7, loss=1.25),
        Interval(7, step_time_ms=251.0),
        Interval(7, step_time_ms=-250.0),
        Interval(7, step_time_ms=250.0, samples_per_s=63.0),
    ):
        with pytest.raises(FindingError):
            stand.check(wrong, "megatron_lm")


def test_what_a_terminal_obeys_and_what_json_is_not_are_found() -> None:
    printable("said", "one\ntwo ✓")
    for text in ("\x1b[2J", "\x9b", "\u202e", "a\rb", "\u2028"):
        with pytest.raises(FindingError):
            printable("said", text)
    assert strict("said", '{"a": 1}') == {"a": 1}
    for text in ("NaN", '{"a": Infinity}', "{"):
        with pytest.raises(FindingError):
            strict("said", text)


GUARDED = """
import os, subprocess, sys, tempfile
from pathlib import Path
from tests.fuzz.case import Guard, finding
home, outside = Path(sys.argv[1]), Path(sys.argv[2])

class Wrong:
    name, share = "wrong", 1
    def make(self, chance): return b""
    def judge(self, data, folder): eval(data, globals())

guard = Guard(home)
for text in sys.argv[3:]:
    print(finding(Wrong(), text.encode(), home, guard)[0] or "nothing")
"""


def test_what_leaves_its_folder_starts_something_or_takes_too_long_is_found() -> None:
    """In a process of its own: what hears of files hears of them until its process ends."""
    with tempfile.TemporaryDirectory() as name:
        home, outside = Path(name) / "home", Path(name) / "outside"
        home.mkdir()
        outside.mkdir()
        texts = {
            "(home / 'x').write_text('')": "nothing",
            "(outside / 'x').write_text('')": "reaches outside of its folder: open",
            "(home / '..' / 'outside' / 'y').mkdir()": "reaches outside of its folder: os.mkdir",
            "subprocess.run(['true'])": "reaches outside of its folder: subprocess.Popen",
            "{}['a']": "KeyError at ",
            "sum(range(3 * 10**8))": "takes ",
        }
        argv = [sys.executable, "-c", GUARDED]
        ran = subprocess.run(
            [*argv, str(home), str(outside), *texts], capture_output=True, text=True, check=True
        )
        for line, wanted in zip(ran.stdout.splitlines(), texts.values(), strict=True):
            assert wanted in line, ran.stdout
