"""Scalars of TensorBoard's event files, for loss curves. Pure except `scalars`, which reads.

A reader of our own, about a hundred lines: the `tensorboard` package brings a web server, gRPC,
protobuf and Markdown for what is a loop over records, and `tbparse` needs it. The formats are
frozen (TFRecord and three protobuf messages that files of ten years are written in):

    record   u64 length, u32 masked CRC-32C of the length, bytes, u32 masked CRC-32C of the bytes
    Event    1 double wall_time, 2 int64 step, 5 Summary
    Summary  1 repeated Value: 1 string tag, 2 float simple_value, 8 TensorProto
    Tensor   1 dtype (1 float, 2 double), 4 tensor_content, 5 packed floats, 6 packed doubles

Sources: tensorflow/core/lib/io/record_writer.h, tensorflow/core/lib/hash/crc32c.h,
tensorboard/compat/proto/{event,summary,tensor}.proto. `simple_value` is what torch's SummaryWriter
and tensorboardX write (Megatron, DeepSpeed, LiBai); TensorFlow 2 writes tensors.

A file that ends in the middle of a record (its writer was killed) gives what came before; a record
whose checksum is wrong ends the reading, too, for nothing after it can be trusted to be framed.
"""

import math
import struct
from collections.abc import Iterator
from pathlib import Path

from node.files import read_start
from node.supervisor.polling import EVENTS_BYTES
from runner.logs.numbers import finite

# Losses by what trainers call them, best first: Megatron, DeepSpeed's Megatron, LiBai, others.
LOSS_TAGS = (
    "lm loss",
    "lm-loss-training/lm loss",
    "lm-loss",
    "total_loss",
    "Train/Samples/train_loss",
    "train/loss",
    "loss",
)
LARGEST = 1 << 28  # bytes of a record: images may be large, garbage is larger
LONGEST_VARINT = 10  # bytes of 64 bits, of which each has seven
MOST_STEPS = 10**15  # a step, or a sample where a trainer counts those


def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_CRC = _crc_table()


def masked_crc(data: bytes) -> int:
    """Compute CRC-32C (Castagnoli), turned by 15 bits and shifted, as TFRecord stores it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data: bytes) -> Iterator[bytes]:
    """Yield the whole records of a TFRecord file, up to the first that is torn or wrong."""
    at = 0
    while at + 12 <= len(data):
        length, check = struct.unpack_from("<QI", data, at)
        end = at + 12 + length
        if length > LARGEST or masked_crc(data[at : at + 8]) != check or end + 4 > len(data):
            return
        body = data[at + 12 : end]
        if masked_crc(body) != struct.unpack_from("<I", data, end)[0]:
            return
        yield body
        at = end + 4


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(data[at : at + LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise ValueError("a number without an end")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (number, value) of a protobuf message: an int of a varint, else the raw bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            number, at = _varint(data, at)
            yield key >> 3, number
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if at + size > len(data):
            raise ValueError("a field is longer than its message")
        yield key >> 3, data[at : at + size]
        at += size


def _tensor(data: bytes) -> float | None:
    """Read the value of a tensor with one float or double."""
    fields = dict(_fields(data))
    dtype = fields.get(1)
    letter = {1: "f", 2: "d"}.get(dtype) if isinstance(dtype, int) else None
    raw = fields.get(4) or fields.get(5) or fields.get(6)
    if letter is None or not isinstance(raw, bytes) or len(raw) != struct.calcsize(letter):
        return None
    return float(struct.unpack(f"<{letter}", raw)[0])


def parse_events(data: bytes) -> dict[str, list[tuple[int, float]]]:
    """Read each tag's (step, value) in the order written; other values are skipped."""
    scalars_by_tag: dict[str, list[tuple[int, float]]] = {}
    for record in records(data):
        try:
            step, values = 0, []
            for number, field in _fields(record):
                if number == 2 and isinstance(field, int):
                    step = field if field < 1 << 63 else field - (1 << 64)
                elif number == 5 and isinstance(field, bytes):
                    values += [value for tag, value in _fields(field) if tag == 1]
            for value in values:
                if isinstance(value, bytes) and 0 <= step <= MOST_STEPS:
                    name, scalar = _value(value)
                    if scalar is not None:
                        scalars_by_tag.setdefault(name, []).append((step, scalar))
        except (ValueError, IndexError, UnicodeDecodeError, struct.error):
            continue  # one odd message says nothing of the next
    return scalars_by_tag


def _value(data: bytes) -> tuple[str, float | None]:
    name, scalar = "", None
    for number, field in _fields(data):
        if not isinstance(field, bytes):
            continue
        if number == 1:
            name = field.decode()
        elif number == 2 and len(field) == 4:
            scalar = float(struct.unpack("<f", field)[0])
        elif number == 8:
            scalar = _tensor(field)
    # What is not finite stays: a loss that broke is no loss that is missing.
    odd = scalar is not None and math.isfinite(scalar) and finite(scalar) is None
    return name, None if odd else scalar


def losses(tags: dict[str, list[tuple[int, float]]]) -> tuple[tuple[int, float], ...]:
    """Return the loss curve: the first of LOSS_TAGS that is there, the last value of each step."""
    for tag in LOSS_TAGS:
        if tag in tags:
            return tuple(sorted(dict(tags[tag]).items()))
    return ()


def _content(path: Path) -> bytes:
    """Return an event file's bytes; none of a link, or of what is larger than nodes give."""
    try:
        return read_start(path, EVENTS_BYTES) or b""
    except OSError:
        return b""


def scalars(paths: list[Path]) -> dict[str, list[tuple[int, float]]]:
    """Read the scalars of several event files, oldest name first: a resumed run writes a
    second one.
    """
    scalars_by_tag: dict[str, list[tuple[int, float]]] = {}
    for path in sorted(paths, key=lambda path: path.name):
        for tag, points in parse_events(_content(path)).items():
            scalars_by_tag.setdefault(tag, []).extend(points)
    return scalars_by_tag
