"""Event files: recorded ones' bytes written out by hand, torn, wrong, and any bytes at all."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.logs.tensorboard import losses, masked_crc, parse_events, records, scalars


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def framed(body: bytes) -> bytes:
    length = struct.pack("<Q", len(body))
    crcs = [struct.pack("<I", masked_crc(part)) for part in (length, body)]
    return length + crcs[0] + body + crcs[1]


def event(step: int, tag: str, value: float, *, tensor: bool = False) -> bytes:
    """An Event as torch's SummaryWriter writes it, or (`tensor`) as TensorFlow 2 does."""
    scalar = b"\x15" + struct.pack("<f", value)
    if tensor:
        scalar = field(8, b"\x08\x01" + field(4, struct.pack("<f", value)))
    summary = field(1, field(1, tag.encode()) + scalar)
    wall = b"\x09" + struct.pack("<d", 1.7e9)
    return framed(wall + b"\x10" + varint(step) + field(5, summary))


VERSION = framed(b"\x09" + struct.pack("<d", 1.7e9) + field(3, b"brain.Event:2"))


def test_the_checksum_is_crc32c_masked_as_tensorflow_does() -> None:
    # RFC 3720, B.4: 32 zero bytes have CRC-32C 8a9136aa; masked by TensorFlow's rule.
    crc = 0x8A9136AA
    assert masked_crc(bytes(32)) == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_the_version_events_frame_is_tensorboards() -> None:
    # What every event file begins with: a version event of 24 bytes, and its length's checksum.
    assert VERSION[:12] == b'\x18\0\0\0\0\0\0\0\xa3\x7fK"'
    assert len(VERSION) == 24 + 16


@pytest.mark.parametrize("tensor", [False, True])
def test_scalars_of_both_writers(tensor: bool) -> None:
    data = VERSION + b"".join(event(n, "lm loss", 10.0 - n, tensor=tensor) for n in (1, 2, 300))
    assert parse_events(data) == {"lm loss": [(1, 9.0), (2, 8.0), (300, -290.0)]}


def test_the_best_known_loss_is_taken_and_the_last_value_of_a_step() -> None:
    data = VERSION + event(1, "learning-rate", 1e-4) + event(1, "loss", 5.0)
    assert losses(parse_events(data)) == ((1, 5.0),)
    assert losses(parse_events(data + event(1, "lm loss", 4.0) + event(1, "lm loss", 3.0))) == (
        (1, 3.0),
    )
    assert losses({}) == ()


def test_a_torn_end_gives_what_came_before_and_a_wrong_byte_ends_it() -> None:
    data = VERSION + event(1, "loss", 5.0) + event(2, "loss", 4.0)
    for cut in range(len(data) - 1, len(VERSION + event(1, "loss", 5.0)), -1):
        assert parse_events(data[:cut]) == {"loss": [(1, 5.0)]}
    spoiled = bytearray(data)
    spoiled[-8] ^= 1
    assert parse_events(bytes(spoiled)) == {"loss": [(1, 5.0)]}


def test_files_of_a_resumed_run_follow_each_other(tmp_path: Path) -> None:
    for name, step in (("events.out.tfevents.2.host", 2), ("events.out.tfevents.1.host", 1)):
        (tmp_path / name).write_bytes(VERSION + event(step, "loss", float(step)))
    assert scalars(list(tmp_path.iterdir())) == {"loss": [(1, 1.0), (2, 2.0)]}


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    assert isinstance(parse_events(data), dict)
    assert parse_events(VERSION + framed(data) + event(1, "loss", 5.0))["loss"][-1] == (1, 5.0)


@given(st.binary(max_size=60))
def test_records_come_back_as_they_were_framed(body: bytes) -> None:
    assert list(records(framed(body) * 2)) == [body, body]


def test_a_number_without_an_end_costs_no_more_than_its_length() -> None:
    """Issue 12, point 5: each of its bytes made the whole number anew, 1 MiB for minutes."""
    endless = b"\x10" + b"\xff" * (1 << 20)
    assert parse_events(VERSION + framed(endless) + event(1, "loss", 5.0)) == {"loss": [(1, 5.0)]}


@pytest.mark.parametrize("step", [-1, 1 << 62])
def test_a_step_that_no_run_has_is_none(step: int) -> None:
    data = VERSION + event(step % (1 << 64), "loss", 5.0) + event(2, "loss", 4.0)
    assert parse_events(data) == {"loss": [(2, 4.0)]}
