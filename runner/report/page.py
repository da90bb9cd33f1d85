"""The page as a whole.

It makes no network request: CSS, plots and the one script are inline, and its content security
policy forbids anything else. Everything that comes from a log or a matrix is escaped by the
template; only SVG made here is trusted.
"""

from collections.abc import Sequence

from node.printable import printable
from runner.report.conclusion import compared_axes, conclusion, ran
from runner.report.details import details
from runner.report.heatmap import heatmaps
from runner.report.page_script import content_policy, page_script
from runner.report.plots import plots
from runner.report.scaling import scaling
from runner.report.sections import against_baseline, problems, results
from runner.report.templating import templates
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
    home: str = "",
    notices: Sequence[str] = (),
    side_by_side: bool = True,
) -> str:
    """Write the whole page. `table` is `build.rows(records, baseline)`; it may be empty.

    `hidden` says what the campaign keeps and the page does not show; `evidence` has each run's
    commands and logs' ends (runner/load/evidence.py), `logs` those that are in the page whole.
    `live` says how far a campaign is that runs: the page then loads itself again every 10 seconds.
    `home` is the first page of the site that it belongs to, `notices` are what readers there should
    know.
    Without `side_by_side` curves stand in the rows' details alone.
    """
    chosen = select_columns(table)
    inside = {log.path: at for at, log in enumerate(log for log in logs if log.data)}
    statuses = [row.status for row in table]
    campaigns = dict.fromkeys(printable(row.record.campaign) for row in table)
    scripts = [page_script()]
    page = templates().get_template("page/report.html.j2")
    return page.render(
        live=live,
        home=home,
        notices=notices,
        policy=content_policy(scripts),
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
        plots=plots(table, side_by_side=side_by_side),
        heatmaps=heatmaps(table),
        timelines=timelines(table),
        problems=problems(table),
    )
