"""Whole logs, compressed for a page that is to have them inside, up to a size for all together."""

import base64
import zlib
from collections.abc import Iterable, Iterator, Sequence

from runner.base.masking import Masks
from runner.base.text import blocks
from runner.terms.record import Record
from runner.terms.run_evidence import Evidence, Evidences, NodeEvidence, PackedLog

LEVEL = 9
# A log that is larger than this many times what is left is not tried: few shrink so much.
MOST_RATIO = 60
TOO_LARGE = "it does not fit"


def packed_logs(records: Sequence[Record], evidence: Evidences, most_bytes: int) -> list[PackedLog]:
    """Compress the logs of the records' runs until `most_bytes` of gzip are used.

    The logs that the records name come first, in their order; then the other nodes'. What does not
    fit is left out, and smaller ones behind it are still taken. None for a size of 0.
    """
    if most_bytes <= 0:
        return []
    packed, bytes_left = [], most_bytes
    for run, node in _in_order(records, evidence):
        path, size = run.href(node.log.path), node.log.bytes or 0
        try:
            fits = size <= bytes_left * MOST_RATIO
            content = Masks(node.log.secrets).blocks(blocks(run.folder / node.log.path))
            data = _gzip(content, bytes_left) if fits else b""
        except OSError as error:
            packed.append(PackedLog(path, size, left_out=f"it cannot be read: {error.strerror}"))
            continue
        bytes_left -= len(data)
        text = base64.b64encode(data).decode()
        packed.append(PackedLog(path, size, text, "" if data else TOO_LARGE))
    return packed


def _in_order(
    records: Sequence[Record], evidence: Evidences
) -> Iterator[tuple[Evidence, NodeEvidence]]:
    """Yield each log with something in it."""
    of_failed = []
    for record in records:
        run = evidence.get((record.cell_id, record.repeat))
        for node in run.nodes if run else ():
            if run and node.log.bytes:
                if run.href(node.log.path) == record.log:
                    yield run, node
                else:
                    of_failed.append((run, node))
    yield from of_failed


def _gzip(content: Iterable[bytes], most: int) -> bytes:
    """Compress; empty where it would take more than `most` bytes. The same bytes give the same."""
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    parts, size = [], 0
    for block in content:
        parts.append(packer.compress(block))
        size += len(parts[-1])
        if size > most:
            return b""
    parts.append(packer.flush())
    return b"".join(parts) if size + len(parts[-1]) <= most else b""
