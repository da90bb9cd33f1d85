"""Where each page and file of a site lies, from its first page. Nobody else spells these."""

from runner.history.identity import safe_name
from runner.history.series import Series

INDEX = "index.html"
POINTS = "data/points.json"
REGRESSIONS = "data/regressions.json"
LOGS = "logs"  # in a campaign's folder


def campaign(id: str) -> str:
    """Return a campaign's page."""
    return f"campaigns/{id}/index.html"


def unsorted(number: int) -> str:
    """Return where a campaign's pages lie until all campaigns are read."""
    return f"campaigns/.{number}"


def cell(series: Series) -> str:
    """Return the page of a cell over time."""
    return f"cells/{series.slug}.html"


def comparison(a: str, b: str) -> str:
    """Return the page that compares campaign b with campaign a."""
    return f"comparisons/{safe_name(b, a, b)}.html"


def run_folder(cell_id: str, repeat: int, attempt: int) -> str:
    """Return the folder of a run's logs, in its campaign's."""
    return f"{LOGS}/{safe_name(cell_id, cell_id)}/repeat{repeat}-attempt{attempt}"
