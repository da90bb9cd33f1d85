"""megatron_mmap.py: what is written is read back, and every corruption is refused with its name."""

import dataclasses
import itertools
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node.dataset import megatron_mmap as mm
from tests.budget import examples

DTYPES = sorted(mm.ITEM_BYTES)
CURE = "run setup's data step again"


def documents_of(dtype: str) -> st.SearchStrategy[list[list[list[int]]]]:
    """Documents, each of one or more sequences, at least one token in all."""
    limits = np.iinfo(dtype)
    token = st.integers(int(limits.min), int(limits.max))
    sequence = st.lists(token, max_size=8)
    documents = st.lists(st.lists(sequence, min_size=1, max_size=3), min_size=1, max_size=12)
    return documents.filter(lambda d: any(any(s) or len(s) for sequences in d for s in sequences))


def write(prefix: Path, documents: list[list[list[int]]], dtype: str = "uint16") -> None:
    with mm.Writer(prefix, dtype) as writer:
        for sequences in documents:
            for sequence in sequences:
                writer.add_sequence(sequence)
            writer.end_document()


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Three documents of 3, 2 + 1 and 4 tokens."""
    prefix = tmp_path / "good"
    write(prefix, [[[1, 2, 3]], [[4, 5], [6]], [[7, 8, 9, 10]]])
    return prefix


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data(), dtype=st.sampled_from(DTYPES))
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, dtype: str
) -> None:
    documents = data.draw(documents_of(dtype))
    prefix = tmp_path_factory.mktemp("round") / "set"
    write(prefix, documents, dtype)
    flat = [[token for sequence in sequences for token in sequence] for sequences in documents]
    summary = mm.check(prefix)
    assert summary.documents == len(documents)
    assert summary.sequences == sum(len(sequences) for sequences in documents)
    assert summary.tokens == sum(map(len, flat))
    assert summary.dtype == dtype
    assert summary.bin_bytes == summary.tokens * mm.ITEM_BYTES[dtype]
    dataset = mm.MmapDataset(prefix)
    assert (dataset.documents, dataset.tokens) == (summary.documents, summary.tokens)
    assert [dataset.document(i).tolist() for i in range(dataset.documents)] == flat
    first = data.draw(st.integers(0, len(flat)))
    last = data.draw(st.integers(first, len(flat)))
    stream = dataset.stream(range(first, last))
    assert stream.tolist() == [token for document in flat[first:last] for token in document]


def test_stream_copies_nothing(good: Path) -> None:
    assert np.shares_memory(
        mm.MmapDataset(good).stream(range(1, 3)), mm.MmapDataset(good)._tokens
    ) or isinstance(mm.MmapDataset(good).stream(range(1, 3)), np.memmap)


def test_the_layout_is_upstreams(tmp_path: Path) -> None:
    """Bytes written out by hand from upstream's layout."""
    write(tmp_path / "set", [[[1, 2, 3]], [[4]]], "int32")
    assert (tmp_path / "set.bin").read_bytes() == struct.pack("<4i", 1, 2, 3, 4)
    assert (tmp_path / "set.idx").read_bytes() == b"MMIDIDX\0\0" + struct.pack(
        "<QBQQ2i2q3q", 1, 4, 2, 3, 3, 1, 0, 12, 0, 1, 2
    )


SIZES, POINTERS, DOCUMENTS = 34, 34 + 4 * 4, 34 + 12 * 4  # of the fixture: N = 4, D = 4
CORRUPTIONS = {
    "magic": (0, b"X", "begins with b'XMIDIDX"),
    "lazy": (0, b"TNTIDX\0\0\0", "lazy/cached form (TNTIDX)"),
    "version": (9, struct.pack("<Q", 2), "has version 2, expected 1"),
    "dtype": (17, b"\x09", "token type code 9, expected one of 1 uint8"),
    "float": (17, b"\x06", "token type code 6"),
    "sequences": (18, struct.pack("<Q", 5), "is truncated by 12 bytes"),
    "documents": (26, struct.pack("<Q", 3), "has 8 bytes too many"),
    "absurd": (18, b"\xff" * 8, "is truncated by"),
    "size": (SIZES + 4, struct.pack("<i", -2), "sequence 1 a size of -2 tokens, expected 0"),
    "pointer": (POINTERS + 8, struct.pack("<q", 7), "sequence 1 begins at byte 7, expected 6"),
    "first": (DOCUMENTS, struct.pack("<q", 1), "first document begin at sequence 1, expected 0"),
    "falls": (DOCUMENTS + 16, struct.pack("<q", 0), "begin at sequence 0, expected 1 or more"),
    "last": (DOCUMENTS + 24, struct.pack("<q", 3), "ends its last document at sequence 3"),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_each_corruption_of_the_index_is_refused(good: Path, name: str) -> None:
    at, new, message = CORRUPTIONS[name]
    path = good.with_suffix(".idx")
    content = bytearray(path.read_bytes())
    content[at : at + len(new)] = new
    path.write_bytes(content)
    with pytest.raises(mm.DatasetError) as refusal:
        mm.check(good)
    text = str(refusal.value)
    assert message in text
    assert str(path) in text
    assert "\n" not in text
    assert CURE in text or "--dataset-impl mmap" in text


@pytest.mark.parametrize(
    ("suffix", "cut", "message"),
    [
        (".bin", -2, "is truncated by 2 bytes (expected 20 bytes, found 18)"),
        (".bin", 4, "has 4 bytes too many (expected 20 bytes, found 24)"),
        (".idx", -1, "is truncated by 1 bytes"),
        (".idx", 3, "has 3 bytes too many"),
        (".idx", -100, "is truncated by 20 bytes (expected 34 bytes, found 14)"),
        (".idx", -(10**6), "is truncated by 34 bytes (expected 34 bytes, found 0)"),
    ],
)
def test_wrong_file_sizes_are_refused(good: Path, suffix: str, cut: int, message: str) -> None:
    path = good.with_suffix(suffix)
    content = path.read_bytes()
    path.write_bytes(content[: max(0, len(content) + cut)] if cut < 0 else content + b"\0" * cut)
    with pytest.raises(mm.DatasetError) as refusal:
        mm.check(good)
    assert message in str(refusal.value)
    assert CURE in str(refusal.value)


@pytest.mark.parametrize("suffix", [".bin", ".idx"])
def test_a_missing_file_is_named(good: Path, suffix: str) -> None:
    good.with_suffix(suffix).unlink()
    for use in (mm.check, mm.MmapDataset):
        with pytest.raises(mm.DatasetError, match=rf"good\{suffix} is missing; {CURE}"):
            use(good)


def test_the_reader_refuses_a_truncated_data_file(good: Path) -> None:
    os.truncate(good.with_suffix(".bin"), 10)
    with pytest.raises(mm.DatasetError, match="truncated by 10 bytes"):
        mm.MmapDataset(good)


@settings(max_examples=examples(80), deadline=None)
@given(data=st.data())
def test_no_changed_index_passes_as_another_dataset(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever byte changes, check raises DatasetError or the change is a legal dataset."""
    prefix = tmp_path_factory.mktemp("fuzz") / "set"
    write(prefix, [[[1, 2, 3]], [[4, 5], [6]], [[7, 8, 9, 10]]])
    path = prefix.with_suffix(".idx")
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[at]))
    path.write_bytes(content)
    try:
        summary = mm.check(prefix)
    except mm.DatasetError:
        return
    # Legal: another token type of the same width, or a document boundary elsewhere.
    assert (summary.tokens, summary.bin_bytes) == (10, 20)
    assert at == 17 or at >= DOCUMENTS


def test_writer_leaves_nothing_after_an_error(tmp_path: Path) -> None:
    def interrupted() -> None:
        with mm.Writer(tmp_path / "set") as writer:
            writer.add_document([1])
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_writer_refuses_what_cannot_be_read_back(tmp_path: Path) -> None:
    with pytest.raises(mm.DatasetError, match="float32"):
        mm.Writer(tmp_path / "set", "float32")
    with pytest.raises(mm.DatasetError, match="do not fit uint16"), mm.Writer(tmp_path / "s") as w:
        w.add_document([70000])
    with pytest.raises(mm.DatasetError, match="no tokens"), mm.Writer(tmp_path / "set"):
        pass
    with pytest.raises(mm.DatasetError, match="not ended"), mm.Writer(tmp_path / "set") as writer:
        writer.add_sequence([1])
    assert list(tmp_path.iterdir()) == []


def upstream_split(splits_string: str, size: int) -> list[int]:
    """Boundaries by upstream's recipe, written down independently of the module under test."""
    weights = [float(text) for text in splits_string.split(",")]
    weights = [*weights, 0.0, 0.0][:3]
    total = sum(weights)
    counts = [int(round(weight / total * float(size))) for weight in weights]  # noqa: RUF046
    bounds = [0, counts[0], counts[0] + counts[1], sum(counts)]
    extra = bounds[3] - size
    return [0] + [bound - extra for bound in bounds[1:]]


@given(
    weights=st.lists(st.integers(0, 1000), min_size=1, max_size=3).filter(any),
    documents=st.integers(1, 10**7),
)
def test_split_is_upstreams(weights: list[int], documents: int) -> None:
    split = ",".join(map(str, weights))
    ranges = mm.split_documents(documents, split)
    bounds = upstream_split(split, documents)
    assert [(part.start, part.stop) for part in ranges] == list(itertools.pairwise(bounds))


@pytest.mark.parametrize(
    ("documents", "split", "lengths"),
    [
        (1000, "949,50,1", [949, 50, 1]),
        (744, "949,50,1", [706, 37, 1]),
        (467, "949,50,1", [444, 23, 0]),
        (10, "100", [10, 0, 0]),
        (10, "8/1/1", [8, 1, 1]),
    ],
)
def test_split_examples(documents: int, split: str, lengths: list[int]) -> None:
    assert [len(part) for part in mm.split_documents(documents, split)] == lengths


@pytest.mark.parametrize("split", ["", "a,b", "0,0,0", "1,-1,5", "1,2,3,4", "nan", "inf,1"])
def test_an_unreadable_split_is_refused(split: str) -> None:
    with pytest.raises(mm.DatasetError, match="949,50,1"):
        mm.split_documents(10, split)


def test_check_split_returns_the_ranges() -> None:
    assert mm.check_split(1000, 10**6, "949,50,1", 128, 100, 10, 1) == (
        range(949),
        range(949, 999),
        range(999, 1000),
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((100, 10**6, "949,50,1", 128, 10), "leaves the test part without documents although its"),
        ((100, 10**6, "1,0,0", 128, 10, 7), "valid part without documents although 7 samples"),
        ((3, 10**6, "0,50,50", 128, 10), "train part without documents"),
        ((3, 10**6, "0,50,50", 128, 0), "valid part without documents"),  # it begins at -1
        ((10, 1000, "1", 1024, 10), "train part about 1000 tokens, fewer than one sample of seq"),
        ((10, 1024, "1", 1024, 10), "about 1024 tokens"),
        ((10, 10**4, "9,1", 1024, 10, 1), "valid part about 1000 tokens"),
    ],
)
def test_check_split_refuses(arguments: tuple[int, int, str, int, int], message: str) -> None:
    with pytest.raises(mm.DatasetError) as refusal:
        mm.check_split(*arguments)
    assert message in str(refusal.value)
    assert "use a " in str(refusal.value)


def test_check_split_believes_known_tokens() -> None:
    mm.check_split(10, 1025, "1", 1024, 10)
    mm.check_split(10, 10**4, "9,1", 1024, 10, 1, part_tokens=(8000, 2000, 0))
    with pytest.raises(mm.DatasetError, match="leaves the valid part 900 tokens"):
        mm.check_split(10, 10**4, "9,1", 1024, 10, 1, part_tokens=(9100, 900, 0))


def test_command_line(good: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, mm.__file__, "check", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert json.loads(run(str(good), "--json").stdout) == dataclasses.asdict(mm.check(good))
    assert "3 documents, 4 sequences, 10 tokens of uint16" in run(str(good)).stdout
    good.with_suffix(".bin").unlink()
    failed = run(str(good))
    assert failed.returncode == 1
    assert failed.stderr.count("\n") == 1
    assert failed.stdout == ""


def test_check_runs_without_numpy(good: Path) -> None:
    code = (
        "import sys; sys.modules['numpy'] = None; import megatron_mmap as m; m.check(sys.argv[1])"
    )
    folder = Path(mm.__file__).parent
    subprocess.run([sys.executable, "-c", code, str(good)], cwd=folder, check=True)


def test_real_datasets_pass() -> None:
    shared = os.environ.get("TRAINBENCH_SHARED")
    if not shared:
        pytest.skip("TRAINBENCH_SHARED names no folder: upstream's own datasets are not checked")
    found = {path.stem: mm.check(path.with_suffix("")) for path in Path(shared).rglob("*.idx")}
    openwebtext = found["meg-gpt2-openwebtext_text_document"]
    assert (openwebtext.documents, openwebtext.tokens) == (1000, 1_361_845)
    assert openwebtext.dtype == "uint16"
    assert {s.dtype for name, s in found.items() if name.startswith("ag_news")} == {"int32"}
    for summary in found.values():
        dataset = mm.MmapDataset(summary.prefix)
        assert dataset.stream(range(dataset.documents)).size == summary.tokens
