"""The page as a whole.

It makes no network request: CSS, plots and the one script are inline, and its content security
policy forbids anything else. Everything that comes from a log or a matrix is escaped by the
template; only SVG made here is trusted.
"""

import re
from collections.abc import Sequence

import jinja2
from markupsafe import Markup

from node.printable import printable
from runner.base.escapes import TerminalLine, TerminalText
from runner.base.paths import TEMPLATES
from runner.report.conclusion import compared_axes, conclusion, ran
from runner.report.details import bytes_text, details
from runner.report.heatmap import heatmaps
from runner.report.page_script import content_policy, live_script, page_script
from runner.report.plots import plots
from runner.report.scaling import scaling
from runner.report.sections import against_baseline, problems, results
from runner.report.timeline import timelines
from runner.tables.ran_on import environment_section
from runner.tables.row import Row
from runner.tables.selection import select_columns
from runner.terms.run_evidence import Evidences, PackedLog


def to_html(
    table: Sequence[Row],
    hidden: str = "",
    *,
    evidence: Evidences | None = None,
    logs: Sequence[PackedLog] = (),
    live: str = "",
) -> str:
    """Write the whole page. `table` is `build.rows(records, baseline)`; it may be empty.

    `hidden` says what the campaign keeps and the page does not show; `evidence` has each run's
    commands and logs' ends (runner/load/evidence.py), `logs` those that are in the page whole.
    `live` is the number of a page that is served while the campaign runs (runner/serve/).
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
    environment.filters |= {"breakable": breakable, "grouped": grouped, "size": bytes_text}
    chosen = select_columns(table)
    inside = {log.path: at for at, log in enumerate(log for log in logs if log.data)}
    statuses = [row.status for row in table]
    campaigns = dict.fromkeys(printable(row.record.campaign) for row in table)
    scripts = [page_script(), *([live_script()] if live else [])]
    return environment.get_template("page/report.html.j2").render(
        live=live,
        policy=content_policy(scripts, live=bool(live)),
        scripts=scripts,
        title=", ".join(campaigns) or "no cells",
        counts=[(statuses.count(status), status) for status in dict.fromkeys(statuses)],
        publishable=sum(row.publishable for row in table),
        hidden=hidden,
        compared=compared_axes(table),
        ran=ran(table),
        conclusion=conclusion(table),
        common={name: value for name, value in chosen.common.items() if name != "campaign"},
        environment=environment_section(record for row in table for record in row.records),
        table=results(table, chosen),
        details=details(table, evidence or {}, inside),
        logs=[log for log in logs if log.data],
        logs_left_out=[log for log in logs if not log.data],
        notes=chosen.notes,
        baseline=against_baseline(table),
        scaling=scaling(table),
        plots=plots(table),
        heatmaps=heatmaps(table),
        timelines=timelines(table),
        problems=problems(table),
    )


def _shown(value: object) -> object:
    """Leave out of what the templates write what no page should hold; they escape it then."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return TerminalText(value)
    return value


def breakable(text: str) -> Markup:
    """Escape `text`, with a possible line break after each sign that joins words."""
    return Markup("<wbr>").join(re.findall(r"[^-_,./=]*[-_,./=]?", TerminalLine(text)))


def grouped(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Group facts by what they belong to: [("a / b", "1")] -> [("a", [("b", "1")])], loose ones
    first.
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    for key, value in pairs:
        group, _, name = key.rpartition(" / ")
        groups.setdefault(group, []).append((name, value))
    return sorted(groups.items(), key=lambda item: item[0] != "")
