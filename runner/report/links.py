"""Links from figures to the logs that they came from."""

from urllib.parse import quote


def href(path: str) -> str | None:
    """Return `path` as a relative link, or None: an absolute path would name somebody's machine."""
    return quote(path, safe="/._-~=,+") if path and not path.startswith(("/", "\\", "~")) else None
