"""Folders and exports to a site: each campaign is read once, its page and logs written at once."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runner.base.errors import UserError
from runner.history.cell_points import UNOFFICIAL, CampaignPoints, Point
from runner.history.reading import OpenCampaign, opened, points_of, sorted_out, why_unread
from runner.history.workers import parallel_map
from runner.report.page import to_html
from runner.report.page_script import content_policy, page_script
from runner.report.templating import templates
from runner.site import cell_pages, comparison_pages, data_files, index_page, site_paths
from runner.site.logs import copied
from runner.site.site_folder import UnwritableError, new_site, write
from runner.site.site_model import WholeSite

Told = Callable[[str, int, int], None]  # what goes on, how many of how many are done


@dataclass(frozen=True)
class _Order:
    """What a process is told: read this, write it there."""

    source: Path
    folder: Path
    log_bytes: int


def make_site(
    sources: Sequence[Path],
    target: Path,
    *,
    log_bytes: int,
    report_progress: Told,
) -> WholeSite:
    """Write a site of the campaigns `sources` to `target`, whole or not at all.

    Of each log `log_bytes` are kept.
    Raises UserError where none of them can be read, or the folder cannot be written.
    """
    with new_site(target, sources) as folder:
        orders = [
            _Order(source, folder / site_paths.unsorted(number), log_bytes)
            for number, source in enumerate(sources)
        ]
        read: list[tuple[Path, CampaignPoints | str]] = []
        report_progress("reading campaigns", 0, len(sources))
        for order, outcome in zip(orders, parallel_map(_campaign, orders), strict=True):
            read.append((order.source, outcome))
            report_progress("reading campaigns", len(read), len(sources))
        site = WholeSite(*sorted_out(read))
        if not site.campaigns:
            raise UserError(f"none of {len(sources)} can be read: {site.left_out[0].reason}")
        for order, (_, outcome) in zip(orders, read, strict=True):
            if isinstance(outcome, CampaignPoints) and site.by_id.get(outcome.id) is outcome:
                order.folder.rename((folder / site_paths.campaign(outcome.id)).parent)
            else:
                shutil.rmtree(order.folder, ignore_errors=True)
        _write_pages(site, folder, report_progress)
    return site


def _campaign(order: _Order) -> CampaignPoints | str:
    """Read a campaign and write its page and logs; a sentence where it cannot be read."""
    try:
        with opened(order.source, evidence=True) as read:
            return _written(read, order)
    except UnwritableError:
        raise
    except Exception as error:  # whatever is in one campaign, the site has the others
        return why_unread(error)


def _written(read: OpenCampaign, order: _Order) -> CampaignPoints:
    campaign = points_of(read)
    logs, evidence = copied(read, order.folder, order.log_bytes)
    notices = [f"Unofficial: {UNOFFICIAL[mark]}." for mark in campaign.marks]
    write(
        order.folder / site_paths.INDEX,
        to_html(
            read.document.with_logs(logs, evidence),
            home=f"../../{site_paths.INDEX}",
            notices=notices,
            side_by_side=False,
        ),
    )
    return replace(
        campaign, points=tuple(_with_logs(campaign, point, logs) for point in campaign.points)
    )


def _with_logs(campaign: CampaignPoints, point: Point, logs: Mapping[str, str]) -> Point:
    cell_folder = f"{point.row['cell_id']}/"
    home = site_paths.campaign(campaign.id).rpartition("/")[0]
    copied_logs = {
        name: f"{home}/{path}" for name, path in logs.items() if name.startswith(cell_folder)
    }
    return replace(point, logs=copied_logs)


def _write_pages(site: WholeSite, folder: Path, report_progress: Told) -> None:
    """Write every page except the campaigns' own."""
    pages = templates()
    table = page_script()

    def write_page(
        page_path: str, template: str, scripts: list[str], values: dict[str, object]
    ) -> None:
        text = pages.get_template(f"site/{template}.html.j2").render(
            policy=content_policy(scripts), scripts=scripts, **values
        )
        write(folder / page_path, text)

    count = len(site.over_time) + len(site.comparisons)
    for at, series in enumerate(site.over_time):
        report_progress("writing pages", at, count)
        write_page(site_paths.cell(series), "cell", [table], cell_pages.page(site, series))
    for at, ((a, b), comparison) in enumerate(site.comparisons.items(), len(site.over_time)):
        report_progress("writing pages", at, count)
        values = comparison_pages.page(site.by_id[a], site.by_id[b], comparison)
        write_page(site_paths.comparison(a, b), "comparison", [], values)
    write_page(site_paths.INDEX, "index", [table], index_page.page(site))
    write(folder / site_paths.POINTS, data_files.points(site))
    write(folder / site_paths.REGRESSIONS, data_files.regressions(site))
    report_progress("writing pages", count, count)
