"""build_corpus.py: a small corpus, the same bytes each time, whole or not at all."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from node import manifest_folders
from node.answer import ProgramError
from node.dataset import build_corpus, inspection, megatron_mmap, tokenize_text

tokenizers = pytest.importorskip("tokenizers")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of 20 short files, with one copy, one binary, one test and one empty file."""
    root = tmp_path_factory.mktemp("sources")
    (root / "lib" / "test").mkdir(parents=True)
    (root / "licences").mkdir()
    for i in range(20):
        body = "".join(f"def function_{i}_{j}(x):\n    return x + {i * j}\n\n" for j in range(30))
        (root / "lib" / f"module_{i}.py").write_text(body)
    (root / "lib" / "copy.py").write_bytes((root / "lib" / "module_3.py").read_bytes())
    (root / "lib" / "binary.py").write_bytes(b"\xff\xfe\x00")
    (root / "lib" / "empty.py").write_text("\n")
    (root / "lib" / "test" / "test_x.py").write_text("assert True\n")
    (root / "licences" / "FREE").write_text("Do as you like. <|endoftext|> is only text here.\n")
    return root


def build(sources: Path, output: Path, **more: Any) -> dict[str, Any]:
    spec = {"output": str(output), "name": "tiny", "vocab_size": 300, "max_bytes": 1 << 24}
    folders = {"stdlib": str(sources / "lib"), "licences": str(sources / "licences")}
    return build_corpus.make({**spec, "seed": 1234, **folders, **more})


def digests(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


def test_the_same_inputs_give_the_same_bytes(sources: Path, tmp_path: Path) -> None:
    build(sources, tmp_path / "a")
    build(sources, tmp_path / "b")
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    build(sources, tmp_path / "c", seed=7)
    name = "tiny_text_document.bin"
    assert digests(tmp_path / "a")[name] != digests(tmp_path / "c")[name]


def test_the_manifest_says_what_is_there(
    sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "set"
    build(sources, output)
    manifest = json.loads((output / "dataset.json").read_text())
    summary = megatron_mmap.check(output / manifest["prefix"])
    assert manifest["schema"] == 1
    assert manifest["name"] == "tiny"
    for field in ("documents", "sequences", "tokens", "dtype"):
        assert manifest[field] == getattr(summary, field)
    assert manifest["documents"] == 21  # 20 modules and a licence
    assert (manifest["dtype"], manifest["vocab_size"]) == ("uint16", 300)
    found = digests(output)
    del found["dataset.json"]
    assert manifest["sha256"] == found
    assert sorted(found) == [
        "merges.txt",
        "tiny_text_document.bin",
        "tiny_text_document.idx",
        "vocab.json",
    ]
    assert "21 documents" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_every_document_can_be_decoded_and_ends_with_eod(sources: Path, tmp_path: Path) -> None:
    output = tmp_path / "set"
    build(sources, output)
    manifest = json.loads((output / "dataset.json").read_text())
    model = tokenizers.models.BPE.from_file(str(output / "vocab.json"), str(output / "merges.txt"))
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    dataset = megatron_mmap.MmapDataset(output / "tiny_text_document")
    texts = set()
    for i in range(dataset.documents):
        *body, last = dataset.document(i).tolist()
        assert last == manifest["eod_token"]
        assert manifest["eod_token"] not in body
        texts.add(tokenizer.decode(body))
    assert (sources / "lib" / "module_7.py").read_text() in texts
    assert (sources / "licences" / "FREE").read_text() in texts


def test_the_text_as_json_lines_gives_the_tokens_of_the_corpus(
    sources: Path, tmp_path: Path
) -> None:
    """So that a trainer that tokenizes by itself, as torchtitan, learns what the others learn."""
    output = tmp_path / "set"
    manifest = build(sources, output, with_text=True)
    assert "c4_test/data.json" in manifest["sha256"]
    lines = (output / "c4_test" / "data.json").read_text().splitlines()
    tokenizer = tokenize_text.tokenizer_of(str(output / "vocab.json"), str(output / "merges.txt"))
    dataset = megatron_mmap.MmapDataset(output / "tiny_text_document")
    assert len(lines) == dataset.documents
    for number, line in enumerate(lines):
        ids = tokenizer.encode(json.loads(line)["text"]).ids
        assert [*ids, manifest["eod_token"]] == dataset.document(number).tolist()


def test_a_corpus_of_before_it_had_its_text_as_json_lines_is_made_anew(
    sources: Path, tmp_path: Path
) -> None:
    manifest = build(sources, tmp_path / "tiny")
    entry = {"corpus": manifest["recipe"]}
    (fault,) = inspection.faults(
        str(tmp_path / "tiny"), "tiny", entry, manifest_folders.State(str(tmp_path))
    )
    assert "lists no" in fault
    assert "c4_test/data.json, tokenizer.json, tokenizer_config.json" in fault


def test_max_bytes_limits_the_text(sources: Path) -> None:
    documents = build_corpus.read_documents(sources / "lib", sources / "licences", 5000, 1)
    assert 0 < sum(len(text.encode()) for text in documents) <= 5000


def test_an_older_corpus_is_replaced_and_a_foreign_folder_is_not(
    sources: Path, tmp_path: Path
) -> None:
    output = tmp_path / "set"
    build(sources, output)
    (output / "stale.npy").write_text("")
    build(sources, output)
    assert not (output / "stale.npy").exists()
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("")
    with pytest.raises(ProgramError, match="holds files that are not such a dataset"):
        build(sources, foreign)
    assert (foreign / "thesis.txt").exists()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"vocab_size": 100000}, "dataset_vocab_size 100000 is out of range; give 257 to 65499"),
        ({"vocab_size": 60000}, "lower dataset_vocab_size"),
        ({"max_bytes": 5}, "no text of at most 5 bytes"),
    ],
)
def test_refusals_leave_nothing(
    sources: Path,
    tmp_path: Path,
    extra: dict[str, int],
    message: str,
) -> None:
    with pytest.raises(ProgramError, match=f"^build_corpus error: .*{message}") as error:
        build(sources, tmp_path / "set", **extra)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []
