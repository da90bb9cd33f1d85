"""Archives that are damaged, or made to harm: refused in one sentence, soon, or nothing changes."""

import gzip
import io
import json
import random
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.__main__ import main
from runner.archive import archive
from runner.base.errors import UserError
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, torch_gpt, write

GOOD = b'{"schema": 1, "repeats": 1, "inventory": "rack", "cells": []}'
SOON_S = 5.0  # what takes a second on an idle machine


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A small campaign's export."""
    campaign = write(
        tmp_path / "runs", small_matrix(), small_cluster(1), lambda *_: Story({0: torch_gpt(9)})
    )
    target = tmp_path / "whole.tar.gz"
    assert main(["export", str(campaign.path), "-o", str(target)]) == 0
    return target


def there(path: Path) -> dict[str, bytes]:
    """What is read of an archive: name to bytes."""
    with archive.opened(path.parent / "no-runs", str(path)) as source:
        home = source.campaign.path
        return {
            file.relative_to(home.parent).as_posix(): file.read_bytes()
            for file in home.rglob("*")
            if file.is_file()
        }


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        there(path)
    said = str(caught.value)
    assert said.isprintable()
    return said


def tar_of(path: Path, *members: tuple[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


# --- damage ---------------------------------------------------------------------------------------


def test_no_flipped_bit_of_250_changes_what_is_read(whole: Path, tmp_path: Path) -> None:
    """Of 250 single-bit flips 221 were accepted in silence, 38 with other statuses or steps."""
    content, before = whole.read_bytes(), there(whole)
    header = range(10 * 8)  # gzip's own, whose time and system nobody reads
    sampled = random.Random(12).sample(range(10 * 8, len(content) * 8), 250)
    refused = 0
    for bit in (*header, *sampled):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path = tmp_path / "flipped.tar.gz"
        path.write_bytes(flipped)
        try:
            after = there(path)
        except UserError:
            refused += 1
        else:
            assert after == before, bit  # such as one in a length that no code of deflate has
    assert refused > 250


def test_a_file_that_is_not_the_manifests_is_refused(whole: Path, tmp_path: Path) -> None:
    """Whoever repacks an archive has a good checksum of gzip's; the manifest tells."""
    members: list[tuple[str, bytes]] = []
    with tarfile.open(whole) as tar:
        for member in tar:
            stream = tar.extractfile(member)
            assert stream is not None
            members.append((member.name, stream.read()))
    same = tar_of(tmp_path / "same.tar.gz", *members)
    assert there(same) == there(whole)
    (log,) = [name for name, _ in members if name.endswith("launcher.log")]
    changed = [(n, c.replace(b"step=3/", b"step=4/") if n == log else c) for n, c in members]
    said = refusal(tar_of(tmp_path / "changed.tar.gz", *changed))
    assert "launcher.log in it is not what was exported" in said
    fewer = [(name, content) for name, content in members if name != log]
    assert "launcher.log in it is not what was exported" in refusal(
        tar_of(tmp_path / "fewer.tar.gz", *fewer)
    )
    more = [*members, ("m-rack/inspect/n2.json", b"{}")]
    assert "inspect/n2.json in it is not" in refusal(tar_of(tmp_path / "more.tar.gz", *more))
    torn = [(n, b'{"sha256": 5}' if n == "m-rack/manifest.json" else c) for n, c in members]
    assert "manifest.json: sha256 is 5" in refusal(tar_of(tmp_path / "torn.tar.gz", *torn))


def test_an_archive_of_before_has_no_manifest(tmp_path: Path) -> None:
    path = tar_of(tmp_path / "old.tar.gz", ("c/campaign.json", GOOD))
    assert there(path) == {"c/campaign.json": GOOD}


def test_a_tar_that_ends_in_the_middle_is_refused_though_its_gzip_is_whole(tmp_path: Path) -> None:
    """tarfile takes a damaged header for the end: what stood behind it was missing in silence."""
    tar = gzip.decompress(
        tar_of(tmp_path / "x.tar.gz", ("c/campaign.json", GOOD), ("c/z", b"z" * 600)).read_bytes()
    )
    damaged = bytearray(tar)
    damaged[1024] ^= 1  # the second member's name
    for name, content in {
        "header": bytes(damaged),
        "no end": tar[:2560],
        "half an end": tar[: 2560 + 512],
        "words behind": tar + b"more",
    }.items():
        path = tmp_path / "cut.tar.gz"
        path.write_bytes(gzip.compress(content, mtime=0))
        assert "is not a whole export of a campaign" in refusal(path), name


# --- harm -----------------------------------------------------------------------------------------


def raw(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE) -> bytes:
    """One member, as it stands in a tar."""
    member = tarfile.TarInfo(name)
    member.size, member.type = len(content), kind
    return member.tobuf(tarfile.USTAR_FORMAT) + content + b"\0" * (-len(content) % 512)


def gz(path: Path, blocks: Iterator[bytes]) -> Path:
    with gzip.open(path, "wb", compresslevel=1) as stream:
        for block in blocks:
            stream.write(block)
        stream.write(b"\0" * 10240)
    return path


def long_names() -> Iterator[bytes]:
    for _ in range(3000):
        yield raw("././@LongLink", b"x\0", tarfile.GNUTYPE_LONGNAME)
    yield raw("c/campaign.json", GOOD)


def many_folders() -> Iterator[bytes]:
    yield raw("c/campaign.json", GOOD)
    yield raw("c/folder", b"", tarfile.DIRTYPE) * 100_000


def deep_folders() -> Iterator[bytes]:
    yield raw("c/campaign.json", GOOD)
    for number in range(2_000):
        yield raw(f"c/{number}/" + "d/" * 40 + "x")


def digits() -> Iterator[bytes]:
    """Digits alone, over which tarfile's regular expressions go once for each of them."""
    for _ in range(8):
        yield raw("././@PaxHeader", b"1" * 200_000, tarfile.XHDTYPE)
        yield raw("c/x")


def holes() -> Iterator[bytes]:
    """A map of a sparse file, which tarfile reads into memory before its filter is asked."""
    fields = {"major": "1", "minor": "0", "name": "c/x", "realsize": "1"}
    records = [f" GNU.sparse.{key}={value}\n" for key, value in fields.items()]
    header = "".join(f"{len(record) + 2}{record}" for record in records)
    yield raw("././@PaxHeader", header.encode(), tarfile.XHDTYPE)
    yield raw("c/x", b"20000000\n" + b"1\n" * 40_000_000)


def many_records() -> Iterator[bytes]:
    for _ in range(400):
        yield raw("././@PaxHeader", b"5 a=\n" * 13_000, tarfile.XHDTYPE)
        yield raw("c/x")


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        (long_names, "is not a plain file"),
        (many_folders, "more than 100000 files"),
        (deep_folders, "folders within each other"),
        (digits, "a header in it has 200000 bytes"),
        (many_records, "is in it twice"),
        (holes, "is not a plain file"),
    ],
)
def test_what_would_take_minutes_is_refused_soon(
    blocks: Callable[[], Iterator[bytes]], words: str, tmp_path: Path
) -> None:
    """A million folders took a minute, 3,000 long names ended in a traceback."""
    path = gz(tmp_path / "x.tar.gz", blocks())
    began = time.process_time()
    assert words in refusal(path)
    assert time.process_time() - began < 4 * SOON_S


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"repeats": 10**12}, "campaign.json: repeats is 1000000000000; it must be 1 to 1000"),
        ({"repeats": "3"}, "campaign.json: repeats is '3'"),
        ({"cells": [{"repeats": 10**9}]}, "campaign.json: cells[0]"),
        ({"schema": 2}, "campaign.json is of another version of TrainBench: schema 2"),
    ],
)
def test_a_campaign_json_that_bench_never_wrote_is_named_with_its_archive(
    change: dict[str, object], words: str, tmp_path: Path
) -> None:
    """A million million repeats filled the memory."""
    content = {**json.loads(GOOD), **change}
    path = tar_of(tmp_path / "x.tar.gz", ("c/campaign.json", json.dumps(content).encode()))
    said = refusal(path)
    assert said.startswith(f"{path}: {words}")


def test_a_members_name_does_nothing_to_a_terminal(tmp_path: Path) -> None:
    for number, name in enumerate(("c/\x1b]0;owned\x07x", "c/a\nb", "\x1b[2J/../x")):
        path = tar_of(tmp_path / f"{number}.tar.gz", ("c/campaign.json", GOOD), (name, b"x"))
        said = refusal(path)
        assert "outside its own folder" in said


def test_a_name_of_an_archive_does_nothing_to_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31mred.tar.gz"
    path.write_bytes(b"text")
    assert refusal(path)
