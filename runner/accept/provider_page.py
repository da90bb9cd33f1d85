"""One page to hand to a provider: what was run, what was found, what was not tested. Pure.

It holds no name of a host, user or address: hosts are node1, node2, ... as `export --redact` has
them; names.txt beside it says which is which. It makes no network request.
"""

import time
from typing import Any

from node.time_words import lasts
from runner import __version__
from runner.accept.acceptance_answer import WORDS, AcceptAnswer, figure_cells, grouped
from runner.accept.scope import arguments
from runner.archive.redact import Redaction
from runner.base.suggested_commands import accept
from runner.doctor.answer import Answer
from runner.report.templating import content_policy, templates

MACHINE = ("GPU name", "GPU driver", "CPU model", "CPU threads", "memory MiB", "kernel")
EFFORT = ("product_s", "storage_mib", "train_iters", "device", "workload")


def page(answer: AcceptAnswer, machine_answer: Answer) -> str:
    """Write the page, redacted."""
    redaction = Redaction(list(answer.nodes), [])
    for env in machine_answer.envs.values():
        redaction.learn(env)
    content = redaction.content(_content(answer, machine_answer))
    return (
        templates()
        .get_template("accept/page.html.j2")
        .render(policy=content_policy([]), version=__version__, **content)
    )


def _content(answer: AcceptAnswer, machine_answer: Answer) -> dict[str, Any]:
    state, healthy, failing = answer.state, set(answer.healthy), answer.failing
    return {
        "result": WORDS[answer.exit_code],
        "began": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(state.began_at)),
        "took": lasts(sum(stage_report.took_s for stage_report in state.stages)),
        "nodes": [
            {
                "host": host,
                "faults": len(failing.get(host, ())),
                "healthy": host in healthy,
            }
            for host in answer.nodes
        ],
        "healthy": len(healthy),
        "faults": [
            {"where": where, "words": description, "cure": cure}
            for where, description, cure in grouped(answer.faults)
        ],
        "stages": [
            {
                "stage": stage_report.stage,
                "took": lasts(stage_report.took_s),
                "commands": list(stage_report.commands),
                "notes": list(stage_report.notes),
                "faults": len(stage_report.faults),
            }
            for stage_report in state.stages
        ],
        "figures": [figure_cells(row) for row in answer.rows],
        "untested": answer.untested,
        "options": {key: str(value) for key in EFFORT if (value := state.options.get(key))},
        "machine": machine(machine_answer),
        "command": accept("", arguments(state.options)).strip("`"),
    }


def machine(answer: Answer) -> list[list[str]]:
    """Return what the nodes are, an item each, as most of them have it."""
    from runner.doctor.items import items_of

    rows = []
    items = [{item.name: item.value for item in items_of(env)} for env in answer.envs.values()]
    for name in MACHINE:
        values = [values_by_name.get(name) for values_by_name in items if values_by_name.get(name)]
        if values:
            rows.append([name, str(max(values, key=values.count))])
    return rows
