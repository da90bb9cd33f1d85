"""One page to hand to a provider: what was run, what was found, what was not tested. Pure.

It holds no name of a host, user or address: hosts are node1, node2, ... as `export --redact` has
them; names.txt beside it says which is which. It makes no network request.
"""

import time

from node.time_words import lasts
from runner import __version__
from runner.accept.acceptance import NodeFault
from runner.accept.answer import grouped
from runner.accept.scope import arguments
from runner.archive.redact import Redaction
from runner.base.escapes import plain
from runner.base.suggested_commands import accept
from runner.doctor.answer import Answer as Asked
from runner.doctor.items import items_of
from runner.report.templating import content_policy, templates
from runner.study.study import Answer

MACHINE = ("GPU name", "GPU driver", "CPU model", "CPU threads", "memory MiB", "kernel")
SHOWN = ("stage", "commands", "notes")
EFFORT = ("product_s", "storage_mib", "train_iters", "device", "workload")


def page(answer: Answer, asked: Asked) -> str:
    """Write the page, redacted; `asked` is what the nodes are."""
    redaction, detail = Redaction(list(asked.nodes), []), answer.detail
    for env in asked.envs.values():
        redaction.learn(env)
    faults = grouped([NodeFault(**fault) for fault in detail["faults"]])
    options, stages = detail["options"], detail["stages"]
    content = redaction.content(
        {
            "result": answer.verdict,
            "began": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(detail["began_at"])),
            "took": lasts(sum(report["took_s"] for report in stages)),
            "nodes": list(asked.nodes),
            "healthy": detail["healthy"],
            "failing": {host: len(each) for host, each in detail["failing"].items()},
            "faults": [list(one) for one in faults],
            "stages": [
                {**{key: plain(report[key]) for key in SHOWN}, "took": lasts(report["took_s"])}
                for report in stages
            ],
            "figures": list(answer.tables[0].rows),
            "untested": detail["untested"],
            "options": {key: str(value) for key in EFFORT if (value := options.get(key))},
            "machine": machine(asked),
            "command": accept("", arguments(options)).strip("`"),
        }
    )
    template = templates().get_template("accept/page.html.j2")
    return template.render(policy=content_policy([]), version=__version__, **content)


def machine(asked: Asked) -> list[list[str]]:
    """Return what the nodes are, an item each, as most of them have it."""
    items = [{item.name: item.value for item in items_of(env)} for env in asked.envs.values()]
    known = {name: [named[name] for named in items if named.get(name)] for name in MACHINE}
    return [[name, str(max(values, key=values.count))] for name, values in known.items() if values]
