"""The files that an acceptance leaves: for people, for a scheduler, for CI, for the provider."""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from node.time_words import lasts
from runner.accept.acceptance import AcceptState, acceptances
from runner.accept.acceptance_answer import AcceptAnswer
from runner.accept.scope import AcceptOptions
from runner.accept.session import Session
from runner.base.files import write_text
from runner.base.text import counted
from runner.folder.stored import UnreadableError

SIZES = (64, 1024)  # clusters that a plan is calculated for, too


def plan(options: AcceptOptions, nodes: int, device: str) -> str:
    """Return how long each stage takes, here and on larger clusters."""
    counts = [nodes, *(size for size in SIZES if size > nodes and not options.node)]
    every = [options.expected_s(count, device) for count in counts]
    lines = ["  ".join(["stage     ", *(f"{counted(count, 'node'):>12}" for count in counts)])]
    for stage in every[0]:
        lines.append(
            "  ".join([f"{stage:<10}", *(f"{lasts(durations[stage]):>12}" for durations in every)])
        )
    lines.append("  ".join([f"{'all':<10}", *(f"{lasts(sum(e.values())):>12}" for e in every)]))
    return "\n".join(lines)


def finish(session: Session, marks: Mapping[str, Mapping[str, Any]]) -> AcceptAnswer:
    """End an acceptance: judge its figures by marks and history, and write its files."""
    from runner.accept.marks import against_earlier, against_marks
    from runner.accept.provider_page import page

    folder = session.acceptance.path
    state = replace(session.state, ended_at=time.time())
    faults = against_marks(state, marks) + against_earlier(state, _earlier(folder))
    answer = AcceptAnswer(
        inventory=session.cluster.name,
        nodes=session.answer.nodes,
        state=state,
        marks=tuple(faults),
        engine=session.cluster.engine,
    )
    texts = {
        "healthy.txt": "".join(f"{host}\n" for host in answer.healthy),
        "failing.txt": "".join(f"{host}\n" for host in answer.failing),
        "answer.json": json.dumps(answer.as_json(), indent=1) + "\n",
        "junit.xml": answer.junit() + "\n",
        "report.html": page(answer, session.answer),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    session.save(state)  # once all files are there: killed before, the same command writes them
    return answer


def _earlier(folder: Path) -> list[AcceptState]:
    """Return the acceptances before this one that ended, without those of a damaged state."""
    states = []
    for acceptance in acceptances(folder.parent):
        if acceptance.path != folder:
            with suppress(UnreadableError):
                states.append(acceptance.state)
    return [state for state in states if state is not None and state.ended_at is not None]
