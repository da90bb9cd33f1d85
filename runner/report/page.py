"""The page as a whole.

It makes no network request: CSS, plots and the one script are inline, and its content security
policy forbids anything else. Everything that comes from a log or a matrix is escaped by the
template; only SVG made here is trusted.
"""

from node.printable import printable
from runner.report.conclusion import compared_axes, conclusion, ran
from runner.report.details import details
from runner.report.plots import plots
from runner.report.scaling import scaling
from runner.report.sections import against_baseline, problems, results
from runner.report.templating import content_policy, page_script, templates
from runner.report.timeline import failures, timelines
from runner.tables.campaign_document import CampaignDocument
from runner.tables.columns import select
from runner.tables.environment_facts import environment_section
from runner.tables.notes import notes
from runner.tables.row import PUBLISHABLE


def to_html(
    document: CampaignDocument,
    *,
    live: str = "",
) -> str:
    """Write the whole page of a campaign, which may have no cells.

    `live` says how far a campaign is that runs: the page then reloads every 10 seconds.
    """
    table, cells, logs = document.rows, document.cells, document.logs
    columns, shared = select(table)
    inside = {log.path: at for at, log in enumerate(log for log in logs if log.data)}
    statuses = [row["status"] for row in table]
    campaigns = dict.fromkeys(printable(row["campaign"]) for row in table)
    scripts = [page_script()]
    page = templates().get_template("page/report.html.j2")
    return page.render(
        live=live,
        policy=content_policy(scripts),
        scripts=scripts,
        title=document.title or ", ".join(campaigns) or "no cells",
        campaign=", ".join(campaigns) if document.title else "",
        description=document.description,
        counts=[(statuses.count(status), status) for status in dict.fromkeys(statuses)],
        publishable=all(row["verdict"] == PUBLISHABLE for row in table),
        hidden=document.hidden,
        compared=compared_axes(table),
        ran=ran(cells),
        conclusion=conclusion(table),
        common={name: value for name, value in shared.items() if name != "campaign"},
        environment=environment_section(document.records),
        table=results(table, columns),
        details=details(cells, table, document.evidence, inside),
        logs=[log for log in logs if log.data],
        logs_left_out=[log for log in logs if not log.data],
        notes=list(notes(table)),
        baseline=against_baseline(table),
        scaling=scaling(table),
        plots=plots(cells, table),
        timelines=timelines(cells),
        failures=failures(cells, table),
        problems=problems(cells),
    )
