"""Campaigns' folders as nobody should leave them: each value of a JSON file another one, or gone.

`cases` yields them one by one; `read_all` reads a folder in every way that the commands do.
"""

import contextlib
import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

from runner.archive.export import export
from runner.base.errors import UserError
from runner.compare.side import side
from runner.compare.verdicts import compare_campaigns, thresholds
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.launch import status
from runner.launch.live import now_of
from runner.load.records import layout_of, records_of
from runner.terms.record import Record
from tests.runner.documents import document_of, render

FORMATS = ("table", "markdown", "csv", "json", "html")
DEEP: Any = []
for _ in range(200):
    DEEP = [DEEP]
GONE = object()
# Other types, and values at the edges of each type.
VALUES: tuple[Any, ...] = (
    *(GONE, None, True, 0, -1, 10**15, 10**30, 1.5, -1e308, float("inf"), float("nan")),
    *("", "x/../../..", "\x1b]0;x\x07\n{{ x }}", "9" * 5000, "\ud800"),
    *([], [None], ["x"], {}, {"x": None}, {"../x": {"y": [1]}}, DEEP),
)
TEXTS = (b"", b"{", b"[]", b"null", b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe", b"1" * 10_000)


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a JSON value has values, itself first; of a long list the first and the last."""
    yield path
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from places(value, (*path, key))
    elif isinstance(content, list):
        for index in sorted({0, len(content) - 1} if content else ()):
            yield from places(content[index], (*path, index))


def mutations(content: Any, every: int = 1) -> Iterator[tuple[str, bytes]]:
    """A JSON value with one of its values another one; where, and the file's bytes.

    The next is made when it is asked for, of one in `every`.
    """
    for where, path, value in _places_and_values(content)[::every]:
        yield where, value if path is None else _mutated(content, path, value)


def _places_and_values(content: Any) -> list[tuple[str, tuple[Any, ...] | None, Any]]:
    """What stands where instead; without a place it is the file's whole text."""
    return [
        *((f"text {number}", None, text) for number, text in enumerate(TEXTS)),
        *(
            (f"{path} = {str(value)[:40]!r}", path, value)
            for path in places(content)
            for value in VALUES
        ),
    ]


def _mutated(content: Any, path: tuple[Any, ...], value: Any) -> bytes:
    whole = copy.deepcopy(content)
    if path and value is GONE:
        del _at(whole, path[:-1])[path[-1]]
    elif path:
        _at(whole, path[:-1])[path[-1]] = value
    elif value is not GONE:
        whole = value
    return json.dumps(whole).encode()


def _at(content: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        content = content[key]
    return content


def cases(campaign: Campaign, every: int = 1) -> Iterator[tuple[str, Campaign]]:
    """The campaign's folder with one value of one of its files changed, which is put back after."""
    for path in sorted(campaign.path.rglob("*")):
        if not path.is_file() or path.name == names.LOCK:
            continue
        text = path.read_bytes()
        with contextlib.suppress(ValueError):
            content = json.loads(text)
            for where, mutated in mutations(content, every):
                path.write_bytes(mutated)
                yield f"{path.relative_to(campaign.path)}: {where}", campaign
            path.write_bytes(text)


def read_all(campaign: Campaign, *, slowly: bool = False) -> list[Record]:
    """Read a campaign as collect, status and the live view do.

    With `slowly` also as all formats, compare and export do. A UserError is an answer; it is no
    record.
    """
    records: list[Record] = []
    with contextlib.suppress(UserError):
        status.look(campaign).words()
    with contextlib.suppress(UserError):
        records = records_of(campaign, campaign.path)
        layout, documents = layout_of(campaign)
        for format in FORMATS if slowly else ():
            baseline = campaign.settings.baseline
            render(records, format, baseline, layout=layout, published=documents)
        if slowly:
            ours = side("a", document_of(records))
            compare_campaigns(ours, ours, thresholds([]))
    for path in campaign.path.glob(names.ATTEMPTS):
        with contextlib.suppress(UserError):
            attempt = Attempt(path, path.parents[1].name, 1, 1)
            if (run := attempt.run) is not None:
                now_of(run.cell, attempt, 10)
    for redact in (False, True) if slowly else ():
        with contextlib.suppress(UserError):
            export(campaign, campaign.path.with_suffix(".tar.gz"), redact=redact)
    return records
