"""Each cause that a run may end by: the status it gives, and whether the run is made again."""

import json
import re

import pytest

from node.causes import EXPLAINED, LATE, Cause, cause_named
from node.supervisor.daemon import STALLED
from node.supervisor.kinds import REFUSALS
from runner.base.paths import PROJECT
from runner.results.decide import is_finished
from runner.terms.outcome import Outcome
from runner.terms.record import ENDED


@pytest.mark.parametrize("cause", Cause)
def test_every_cause_has_a_status_a_rule_and_a_meaning(cause: Cause) -> None:
    assert cause.status in set(ENDED) - {"ok"}
    assert cause.meaning
    assert is_finished(Outcome("failed", cause, "")) is not cause.again
    assert json.loads(json.dumps({"cause": cause})) == {"cause": cause.value}
    assert f"{cause}" == str(cause) == cause.value
    assert cause_named(cause.value) is cause


def test_bench_makes_again_only_what_a_machine_or_a_person_ended() -> None:
    """What lies in the cell would end it so the next time, too."""
    finished = {cause.value for cause in Cause if not cause.again}
    assert finished == {
        *("exit", "no_step", "stopped_early", "nan_loss", "unreadable"),
        *("time_limit", "stalled", "log_limit", "out_of_memory", "ended_early"),
    }
    assert finished >= set(map(str, EXPLAINED))
    assert is_finished(Outcome("ok", "", ""))
    assert is_finished(Outcome("failed", "of_another_version", ""))
    assert not is_finished(None)


def test_what_may_come_late_is_said_from_outside_of_the_nodes() -> None:
    assert set(map(str, LATE)) == {"interrupted", "control_lost", "stalled", "ended_early"}


def test_what_a_node_may_refuse_with_is_what_its_supervisor_refuses_with() -> None:
    texts = [
        path.read_text(encoding="utf-8")
        for path in (PROJECT / "node" / "supervisor").glob("*.py")
        if path.name not in ("kinds.py", "task.py")  # a task answers nobody: it writes files
    ]
    named = {Cause[name] for text in texts for name in re.findall(r"\bCause\.([A-Z_]+)", text)}
    of_a_task = {Cause.LAUNCH_ERROR, Cause.SETUP_FAILED}  # of Slurm's, which answers nobody
    assert named - {STALLED} - of_a_task == set(REFUSALS)
