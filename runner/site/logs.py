"""Logs as text files of a site: their begin and end, printable, without secrets."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from runner.base.escapes import TerminalLine
from runner.base.log_file import open_log
from runner.base.masking import MARGIN, Masks
from runner.history.reading import OpenCampaign
from runner.site import site_paths
from runner.site.site_folder import write
from runner.terms.run_evidence import Evidence, NodeEvidence

BEGIN_SHARE = 4  # of what is kept of a log that is cut, one part in so many is its begin


def copied(
    read: OpenCampaign, home: Path, most_bytes: int
) -> tuple[dict[str, str], dict[tuple[str, int], Evidence]]:
    """Copy the logs of the campaign's runs into the campaign's folder of the site.

    Returns the log of each run, as a path in the campaign to that in the site, and the evidence
    with these. Of each log at most `most_bytes` are kept, with a line where it was cut.
    """
    paths: dict[str, str] = {}
    moved = {}
    for key, evidence in read.document.evidence.items():
        folder = site_paths.run_folder(evidence.cell_id, evidence.repeat, evidence.attempt)
        inside = evidence.folder.relative_to(read.campaign.path).as_posix()
        secrets = [value for node in evidence.nodes for value in node.log.secrets]
        nodes = []
        for node in evidence.nodes:
            name = f"node{node.rank}.txt"
            if node.log.bytes is not None and most_bytes:
                text = log_text(evidence.folder / node.log.path, most_bytes, secrets)
                write(home / folder / name, text)
                paths[f"{inside}/{node.log.path}"] = f"{folder}/{name}"
            nodes.append(_of_site(node, name, is_copied=bool(most_bytes)))
        moved[key] = replace(
            evidence, shown=folder if most_bytes else "", script="", nodes=tuple(nodes)
        )
    return paths, moved


def _of_site(node: NodeEvidence, name: str, *, is_copied: bool) -> NodeEvidence:
    log = replace(node.log, path=name)
    if not is_copied and log.bytes is not None:
        log = replace(log, bytes=None, missing="this site has no logs")
    return replace(node, log=log, traces=())


def log_text(path: Path, most_bytes: int, secrets: Sequence[str]) -> str:
    """Return a log's text: all of it, or its begin and its end with what was left out between."""
    masks = Masks(secrets)
    with open_log(path) as stream:
        size = stream.seek(0, 2)
        stream.seek(0)
        if size <= most_bytes:
            return _text(stream.read(size), masks)
        begin = stream.read(most_bytes // BEGIN_SHARE)
        stream.seek(size - (most_bytes - len(begin)))
        end = stream.read(most_bytes - len(begin))
    lines = begin.rfind(b"\n") + 1, end.find(b"\n") + 1
    cut = size - (lines[0] or len(begin)) - (len(end) - lines[1])
    note = f"\n[the site leaves out {cut} of {size} bytes here; the campaign has them]\n\n"
    # A cut within a line may part a secret, which escapes may have made longer than it is.
    margin = max((4 * len(value.encode()) + 256 for value in secrets), default=MARGIN)
    head = _text(begin[: lines[0]], masks) if lines[0] else _text(begin, masks)[: -margin or None]
    tail = _text(end[lines[1] :], masks)[0 if lines[1] else margin :]
    return head + note + tail


def _text(content: bytes, masks: Masks) -> str:
    """Make text printable; a secret that escapes stood within is one only after that."""
    text = masks.text(content.decode("utf-8", "replace"))
    lines = text.replace("\r\n", "\n").replace("\t", "    ").split("\n")
    return masks.text("\n".join(map(TerminalLine, lines)))
