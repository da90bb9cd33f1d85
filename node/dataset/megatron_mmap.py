#!/usr/bin/env python3
"""Read, write and check Megatron's ``.bin``/``.idx`` datasets (the "mmap" form).

This is the only module of the project that knows the layout.  It is one file without
dependencies, because three programs that share no environment load it: the dataset role runs it
on the nodes (any Python from 3.8), the runner loads it on the control node, and the trainer
torch_gpt imports it from its own folder.  ``check`` and ``check_split`` need the standard library
only; the reader and the writer import numpy when they are used.

    python3 megatron_mmap.py check PREFIX [--json]

prints a summary and exits 0, or prints one line that names the fault and its cure and exits 1.

Layout (little endian), as written by bigscience Megatron-DeepSpeed e52bdabb
``megatron/data/indexed_dataset.py:388-480``; Megatron-LM v1.1.5 and LiBai write the same bytes.
N is the number of sequences, D the number of documents + 1:

    PREFIX.idx   9 bytes   "MMIDIDX" and two zero bytes
                 u64       version, 1
                 u8        code of the token type, see ``DTYPES``
                 u64, u64  N, D
                 i32[N]    tokens in each sequence
                 i64[N]    where each sequence begins in PREFIX.bin, in bytes
                 i64[D]    the first sequence of each document, and N at the end
    PREFIX.bin   the tokens of all sequences, one after the other
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import mmap
import operator
import os
import struct
import sys
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy.typing as npt

MAGIC = b"MMIDIDX\x00\x00"
LEGACY_MAGIC = b"TNTIDX\x00\x00"
VERSION = 1
HEADER = struct.Struct("<9sQBQQ")  # magic, version, type code, N, D: 34 bytes
# Codes 6 and 7 are floating point upstream (and code 6 has two widths); a token is an integer.
DTYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16"}
ITEM_BYTES = {"uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint16": 2}
CURE = "run setup's data step again to build the dataset again"
PARTS = ("train", "valid", "test")
_CHUNK = 1 << 20  # index entries read at a time, so that checking a large index needs little memory


class DatasetError(Exception):
    """A dataset cannot be used; the message is one sentence with file, fault and cure."""


@dataclasses.dataclass(frozen=True)
class Summary:
    """What a checked dataset holds; ``dtype`` is numpy's name, sizes of files are in bytes."""

    prefix: str
    documents: int
    sequences: int
    tokens: int
    dtype: str
    bin_bytes: int
    idx_bytes: int


class _Header(NamedTuple):
    """The fixed part of an index whose file sizes fit, and where its three arrays begin (bytes)."""

    dtype: str
    item_bytes: int
    sequences: int
    doc_entries: int
    sizes_at: int
    pointers_at: int
    documents_at: int
    idx_bytes: int


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        raise DatasetError(f"{path} is missing; {CURE}") from None
    except OSError as error:
        raise DatasetError(f"{path} cannot be read ({error.strerror}); check the folder") from error


def _size_fault(path: str, expected: int, actual: int) -> DatasetError:
    if actual < expected:
        fault = f"is truncated by {expected - actual} bytes"
    else:
        fault = f"has {actual - expected} bytes too many"
    return DatasetError(f"{path} {fault} (expected {expected} bytes, found {actual}); {CURE}")


def _read_header(prefix: str) -> _Header:
    """Check magic, version, type code and the exact size of ``prefix.idx``; raise DatasetError."""
    path = prefix + ".idx"
    actual = _size(path)
    _size(prefix + ".bin")
    try:
        with open(path, "rb") as file:
            head = file.read(HEADER.size)
    except OSError as error:
        raise DatasetError(f"{path} cannot be read ({error.strerror}); check its mode") from error
    if head.startswith(LEGACY_MAGIC):
        raise DatasetError(
            f"{path} is in Megatron's older lazy/cached form (TNTIDX), expected the mmap form "
            "(MMIDIDX); preprocess the text again with --dataset-impl mmap"
        )
    if head and not MAGIC.startswith(head[: len(MAGIC)]):
        raise DatasetError(
            f"{path} is not a Megatron mmap index: it begins with {head[:9]!r}, expected"
            f" {MAGIC!r}; "
            f"{CURE}"
        )
    if len(head) < HEADER.size:
        raise _size_fault(path, HEADER.size, actual)
    _, version, code, sequences, doc_entries = HEADER.unpack(head)
    if version != VERSION:
        raise DatasetError(f"{path} has version {version}, expected {VERSION}; {CURE}")
    if code not in DTYPES:
        names = ", ".join(f"{key} {name}" for key, name in DTYPES.items())
        raise DatasetError(f"{path} has token type code {code}, expected one of {names}; {CURE}")
    expected = HEADER.size + 12 * sequences + 8 * doc_entries
    if actual != expected:
        raise _size_fault(path, expected, actual)
    if doc_entries < 2 or sequences < 1:
        raise DatasetError(
            f"{path} holds {max(0, doc_entries - 1)} documents and {sequences} sequences, "
            f"expected at least one of each; {CURE}"
        )
    sizes_at = HEADER.size
    pointers_at = sizes_at + 4 * sequences
    documents_at = pointers_at + 8 * sequences
    dtype = DTYPES[code]
    return _Header(
        dtype=dtype,
        item_bytes=ITEM_BYTES[dtype],
        sequences=sequences,
        doc_entries=doc_entries,
        sizes_at=sizes_at,
        pointers_at=pointers_at,
        documents_at=documents_at,
        idx_bytes=actual,
    )


def _first_difference(ours: Sequence[int], theirs: Sequence[int]) -> int:
    return next(i for i in range(len(ours)) if ours[i] != theirs[i])


def _check_sequences(index: mmap.mmap, header: _Header, path: str) -> int:
    """Check sizes and pointers; return the number of tokens."""
    tokens = 0
    for start in range(0, header.sequences, _CHUNK):
        count = min(_CHUNK, header.sequences - start)
        at = header.sizes_at + 4 * start
        sizes = array("i", index[at : at + 4 * count])
        if min(sizes) < 0:
            bad = next(i for i in range(count) if sizes[i] < 0)
            raise DatasetError(
                f"{path} gives sequence {start + bad} a size of {sizes[bad]} tokens, expected 0 "
                f"or more; {CURE}"
            )
        at = header.pointers_at + 8 * start
        pointers = array("q", index[at : at + 8 * count])
        begins = list(itertools.accumulate(sizes, initial=tokens))
        tokens = begins.pop()
        expected = array("q", (begin * header.item_bytes for begin in begins))
        if pointers != expected:
            bad = _first_difference(pointers, expected)
            raise DatasetError(
                f"{path} says that sequence {start + bad} begins at byte {pointers[bad]}, "
                f"expected {expected[bad]}; {CURE}"
            )
    return tokens


def _check_documents(index: mmap.mmap, header: _Header, path: str) -> None:
    """Check that the document index begins with 0, never falls, and ends with N."""
    end = 0
    for start in range(0, header.doc_entries, _CHUNK):
        count = min(_CHUNK, header.doc_entries - start)
        at = header.documents_at + 8 * start
        entries = array("q", index[at : at + 8 * count])
        if start == 0 and entries[0] != 0:
            raise DatasetError(
                f"{path} lets the first document begin at sequence {entries[0]}, expected 0; {CURE}"
            )
        previous = array("q", [end])
        previous.extend(entries[:-1])
        if not all(map(operator.le, previous, entries)):
            bad = next(i for i in range(count) if previous[i] > entries[i])
            raise DatasetError(
                f"{path} lets document {start + bad} begin at sequence {entries[bad]}, expected "
                f"{previous[bad]} or more; {CURE}"
            )
        end = entries[-1]
    if end != header.sequences:
        raise DatasetError(
            f"{path} ends its last document at sequence {end}, expected {header.sequences}; {CURE}"
        )


def check(prefix: str | os.PathLike[str]) -> Summary:
    """Verify every byte of the index and the size of the data file, and say what they hold.

    Takes about 0.2 s a million sequences; the tokens themselves are not read.

    Raises:
        DatasetError: one sentence with the file, what was expected and found, and the cure.
    """
    prefix = os.fspath(prefix)
    header = _read_header(prefix)
    path = prefix + ".idx"
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as index:
        tokens = _check_sequences(index, header, path)
        _check_documents(index, header, path)
    bin_bytes = _size(prefix + ".bin")
    if bin_bytes != tokens * header.item_bytes:
        raise _size_fault(prefix + ".bin", tokens * header.item_bytes, bin_bytes)
    if tokens == 0:
        raise DatasetError(f"{prefix}.bin holds no tokens, expected at least one; {CURE}")
    return Summary(
        prefix=prefix,
        documents=header.doc_entries - 1,
        sequences=header.sequences,
        tokens=tokens,
        dtype=header.dtype,
        bin_bytes=bin_bytes,
        idx_bytes=header.idx_bytes,
    )


def split_weights(split: str) -> list[float]:
    """Return the three weights of a ``--split`` such as ``949,50,1`` (or with ``/``), sum 1.

    Raises:
        DatasetError: the text is not one to three weights of 0 or more with a sum above 0.
    """
    try:
        weights = [float(text) for text in split.split("," if "," in split else "/")]
    except ValueError:
        weights = []
    if not 1 <= len(weights) <= 3 or min(weights) < 0 or not 0 < sum(weights) < float("inf"):
        raise DatasetError(
            f"split {split!r} is not one to three weights of 0 or more with a sum above 0; write "
            "it as train,valid,test, for example 949,50,1"
        )
    weights += [0.0] * (3 - len(weights))
    total = sum(weights)
    return [weight / total for weight in weights]


def split_documents(documents: int, split: str) -> tuple[range, range, range]:
    """Return the documents of the train, valid and test parts, exactly as Megatron cuts them.

    As ``get_train_valid_test_split_`` (bigscience e52bdabb ``megatron/data/dataset_utils.py``):
    each part is rounded by itself (halves to even), then every boundary is moved by what the sum
    is off.  A part can therefore be empty, or even begin below 0; ``check_split`` refuses that.

    Raises:
        DatasetError: ``split`` cannot be read (see ``split_weights``).
    """
    bounds = [0]
    for weight in split_weights(split):
        bounds.append(bounds[-1] + round(weight * documents))
    off = bounds[-1] - documents
    train, valid, test = (bound - off for bound in bounds[1:])
    return range(0, train), range(train, valid), range(valid, test)


def check_split(
    documents: int,
    tokens: int,
    split: str,
    seq_length: int,
    train_samples: int,
    valid_samples: int = 0,
    test_samples: int = 0,
    part_tokens: tuple[int, int, int] | None = None,
) -> tuple[range, range, range]:
    """Verify from numbers alone that a split gives each part what a run asks of it.

    A part must hold documents when its weight is above 0 or samples are asked of it, and a part
    that is asked for samples must hold at least one sample, ``seq_length + 1`` tokens: upstream
    repeats a part as often as needed, but asserts when one pass over it gives no sample
    (``gpt_dataset.py``, "last epoch number of samples exceeded max value").

    Args:
        documents: documents in the dataset.
        tokens: tokens in the dataset.
        split: weights as for ``--split``.
        seq_length: tokens per sample.
        train_samples: samples the run takes from the train part; likewise valid and test.
        part_tokens: tokens of the three parts where they are known; else the parts' share of
            ``tokens`` is estimated from their documents.

    Returns:
        The three ranges of ``split_documents``.

    Raises:
        DatasetError: one sentence with the part, what it has and needs, and the cure.
    """
    weights = split_weights(split)
    ranges = split_documents(documents, split)
    samples = (train_samples, valid_samples, test_samples)
    for i, part_name in enumerate(PARTS):
        is_needed = weights[i] > 0 or samples[i] > 0
        if is_needed and (len(ranges[i]) == 0 or ranges[i].start < 0):
            reason = f"{samples[i]} samples are asked of it" if samples[i] else "its weight is > 0"
            raise DatasetError(
                f"split {split} of {documents} documents leaves the {part_name} part without "
                f"documents although {reason}; use a dataset with more documents, or change the "
                "split"
            )
        part_size = tokens * len(ranges[i]) // max(1, documents)
        if part_tokens is not None:
            part_size = part_tokens[i]
        if samples[i] > 0 and part_size < seq_length + 1:
            about = "" if part_tokens is not None else "about "
            raise DatasetError(
                f"split {split} leaves the {part_name} part {about}{part_size} tokens, fewer than "
                f"one sample of seq_length {seq_length} + 1; use a larger dataset, a shorter "
                "seq_length, or another split"
            )
    return ranges


class Writer:
    """Write a dataset as a stream; the files appear under their names only when it is whole.

    Use it as a context manager: leaving the block normally finishes both files, leaving it by an
    exception removes them.  Tokens are written as they come; only the index is kept in memory.

    Args:
        prefix: path of the dataset without ``.bin`` and ``.idx``.
        dtype: numpy name of the token type, one of ``DTYPES``' values; upstream takes uint16 for
            vocabularies below 65500 and int32 above.

    Raises:
        DatasetError: unknown type, a token that does not fit it, or nothing written at the end.
    """

    def __init__(self, prefix: str | os.PathLike[str], dtype: str = "uint16") -> None:
        if dtype not in ITEM_BYTES:
            raise DatasetError(f"{dtype!r} is not a token type; use one of {', '.join(ITEM_BYTES)}")
        self.prefix = os.fspath(prefix)
        self.dtype = dtype
        self._sizes = array("i")
        self._documents = array("q", [0])
        self._partial = {end: f"{self.prefix}{end}.part-{os.getpid()}" for end in (".bin", ".idx")}
        self._bin = open(self._partial[".bin"], "wb")  # noqa: SIM115  # closed by close() or abort()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def add_sequence(self, tokens: Sequence[int] | npt.NDArray[Any]) -> None:
        """Append one sequence, shape [tokens], to the document that is open."""
        import numpy as np

        values = np.asarray(tokens, dtype=np.int64) if len(tokens) else np.zeros(0, np.int64)
        limits = np.iinfo(self.dtype)
        if values.ndim != 1:
            raise DatasetError(f"a sequence has one dimension, not {values.ndim}")
        if values.size and not limits.min <= values.min() <= values.max() <= limits.max:
            raise DatasetError(
                f"tokens from {values.min()} to {values.max()} do not fit {self.dtype} "
                f"({limits.min} to {limits.max}); write the dataset as int32"
            )
        self._bin.write(values.astype(np.dtype(self.dtype).newbyteorder("<")).tobytes())
        self._sizes.append(values.size)

    def end_document(self) -> None:
        """End the document that is open; the next sequence begins another."""
        self._documents.append(len(self._sizes))

    def add_document(self, tokens: Sequence[int] | npt.NDArray[Any]) -> None:
        """Append a document of one sequence, shape [tokens]."""
        self.add_sequence(tokens)
        self.end_document()

    def abort(self) -> None:
        """Remove what was written so far."""
        self._bin.close()
        for path in self._partial.values():
            if os.path.exists(path):
                os.unlink(path)

    def close(self) -> None:
        """Finish both files: old index away, data into place, new index last."""
        if self._documents[-1] != len(self._sizes) or not any(self._sizes):
            self.abort()
            raise DatasetError(
                f"{self.prefix} was given no tokens or its last document was not ended; call "
                "end_document() after the sequences of each document"
            )
        _sync(self._bin)
        code = next(key for key, name in DTYPES.items() if name == self.dtype)
        item_bytes = ITEM_BYTES[self.dtype]
        begins = itertools.accumulate(self._sizes, initial=0)
        pointers = array("q", (begin * item_bytes for begin in begins))
        with open(self._partial[".idx"], "wb") as file:
            counts = (len(self._sizes), len(self._documents))
            file.write(HEADER.pack(MAGIC, VERSION, code, *counts))
            file.write(self._sizes.tobytes())
            file.write(pointers[:-1].tobytes())
            file.write(self._documents.tobytes())
            _sync(file)
        # A reader must never see a new .bin with an old .idx, so the old index goes first.
        if os.path.exists(self.prefix + ".idx"):
            os.unlink(self.prefix + ".idx")
        os.replace(self._partial[".bin"], self.prefix + ".bin")
        os.replace(self._partial[".idx"], self.prefix + ".idx")


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()


class MmapDataset:
    """Read a dataset through memory maps; nothing is copied until a token is used.

    Only the header and file sizes are checked here, so that many ranks open a large dataset
    quickly; call ``check`` once a node for the rest.

    Attributes:
        documents, sequences, tokens: how many there are.
        dtype: numpy name of the token type.

    Raises:
        DatasetError: as ``check``, for the header and the two sizes.
    """

    def __init__(self, prefix: str | os.PathLike[str]) -> None:
        import numpy as np

        self.prefix = os.fspath(prefix)
        header = _read_header(self.prefix)
        index = np.memmap(self.prefix + ".idx", mode="r")
        self.sizes: npt.NDArray[Any] = np.frombuffer(
            index, "<i4", header.sequences, header.sizes_at
        )
        self._pointers: npt.NDArray[Any] = np.frombuffer(
            index, "<i8", header.sequences, header.pointers_at
        )
        self._first_tokens: npt.NDArray[Any] = np.frombuffer(
            index, "<i8", header.doc_entries, header.documents_at
        )
        self.dtype = header.dtype
        self.documents = header.doc_entries - 1
        self.sequences = header.sequences
        self.tokens = int(self._pointers[-1]) // header.item_bytes + int(self.sizes[-1])
        expected = self.tokens * header.item_bytes
        actual = _size(self.prefix + ".bin")
        if actual != expected:
            raise _size_fault(self.prefix + ".bin", expected, actual)
        self._item_bytes = header.item_bytes
        self._tokens: npt.NDArray[Any] = np.memmap(
            self.prefix + ".bin", dtype=np.dtype(self.dtype).newbyteorder("<"), mode="r"
        )

    def _begin(self, document: int) -> int:
        """Return the position of a document's first token; that of the end for ``documents``."""
        sequence = int(self._first_tokens[document])
        if sequence == self.sequences:
            return self.tokens
        return int(self._pointers[sequence]) // self._item_bytes

    def document(self, i: int) -> npt.NDArray[Any]:
        """Return the tokens of document ``i``, all its sequences, shape [tokens], a view."""
        if not 0 <= i < self.documents:
            raise IndexError(f"document {i} of {self.documents}")
        return self._tokens[self._begin(i) : self._begin(i + 1)]

    def stream(self, documents: range) -> npt.NDArray[Any]:
        """Return the tokens of neighbouring documents as one stream, shape [tokens], a view."""
        if not 0 <= documents.start <= documents.stop <= self.documents or documents.step != 1:
            raise IndexError(f"{documents} of {self.documents} documents")
        return self._tokens[self._begin(documents.start) : self._begin(documents.stop)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="Check a Megatron mmap dataset.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("check", help="verify PREFIX.idx and PREFIX.bin")
    command.add_argument("prefix", metavar="PREFIX", help="path without .bin and .idx")
    command.add_argument("--json", action="store_true", help="print the summary as one JSON object")
    options = parser.parse_args(arguments)
    try:
        summary = check(options.prefix)
    except DatasetError as error:
        print(error, file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(dataclasses.asdict(summary), sort_keys=True))
    else:
        print(
            f"{summary.prefix}: {summary.documents} documents, {summary.sequences} sequences, "
            f"{summary.tokens} tokens of {summary.dtype}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
