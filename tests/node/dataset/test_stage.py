"""stage.py, staged.py and tokenize_text.py: from a server's files to a checked dataset."""

import hashlib
import json
import lzma
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from node import answer, bootstrap, checksum, manifest_folders
from node.dataset import inspection, megatron_mmap, stage, tokenize_text
from plugins.program import sources
from runner.base.paths import PROJECT

SHARED = os.environ.get("TRAINBENCH_SHARED", "")
tokenizers = pytest.importorskip("tokenizers")

TEXTS = ["one small document", "", "it's a second one: <|endoftext|> is only text", "drei\nΔ 3"]


def vocabulary(folder: Path) -> None:
    """A GPT-2-like vocabulary of all bytes, one merge, and the end of document."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    words = [*alphabet, "on", "<|endoftext|>"]
    numbers = {word: number for number, word in enumerate(words)}
    (folder / "gpt2-vocab.json").write_text(json.dumps(numbers))
    (folder / "gpt2-merges.txt").write_text("#version: 0.2\no n\n")


def digest(path: Path, kind: str = "sha256") -> str:
    return hashlib.new(kind, path.read_bytes()).hexdigest()


class Site:
    """A folder in the place of the public addresses, and the job of staging from it."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "mirror"
        self.folder.mkdir()
        vocabulary(self.folder)
        lines = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
        (self.folder / "tiny.jsonl.xz").write_bytes(lzma.compress(lines.encode()))
        self.root = tmp_path / "datasets"
        self.entry: dict[str, Any] = {
            "inputs": [
                {
                    "file": "tiny.jsonl.xz",
                    "address": "https://example.org/tiny.jsonl.xz",
                    "sha256": "recorded",
                    "unpack": "xz",
                    "gives": "tiny.jsonl",
                },
                *(
                    {
                        "file": file,
                        "address": f"https://example.org/{file}",
                        "md5": digest(self.folder / file, "md5"),
                    }
                    for file in ("gpt2-vocab.json", "gpt2-merges.txt")
                ),
            ],
            "vocab": "gpt2-vocab.json",
            "merges": "gpt2-merges.txt",
            "text": "tiny.jsonl",
            "tokenise": {"key": "text", "append_eod": True},
            "prefixes": ["my-gpt2_text_document"],
            "keep": ["tiny.jsonl"],
        }

    @property
    def home(self) -> Path:
        return self.root / "tiny"

    def job(self) -> dict[str, Any]:
        return {
            "root": str(self.root),
            "datasets": {"tiny": self.entry},
            "sources": {
                each["address"]: str(self.folder / each["file"]) for each in self.entry["inputs"]
            },
            "python": sys.executable,
            "systems": str(self.root.parent / "systems"),
        }

    def stage(self) -> int:
        return answer.serve(stage.stage, self.job())

    def look(self, do: str = "look") -> int:
        spec = {"root": str(self.root), "datasets": {"tiny": self.entry}, "address": ""}
        return answer.serve({"look": inspection.look, "verify": inspection.verify}[do], spec)

    def fault(self) -> str:
        spec = {"root": str(self.root), "datasets": {"tiny": self.entry}, "address": ""}
        return str(inspection.read(spec)["datasets"]["tiny"]["fault"])


@pytest.fixture(autouse=True)
def came(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand the tools on that would have come with the program."""
    monkeypatch.setattr(bootstrap, "SOURCES", sources("dataset.stage:stage"))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_dataset_is_there_under_every_name(site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    assert site.stage() == 0
    manifest = json.loads((site.home / "dataset.json").read_text())
    assert sorted(manifest["sha256"]) == [
        "c4_test/data.json",
        "encoder.json",
        "gpt2-merges.txt",
        "gpt2-vocab.json",
        "merges.txt",
        "my-gpt2_text_document.bin",
        "my-gpt2_text_document.idx",
        "tiny.jsonl",
        "tiny_text_document.bin",
        "tiny_text_document.idx",
        "tiny_text_sentence.bin",
        "tiny_text_sentence.idx",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.bpe",
        "vocab.json",
    ]
    for file, wanted in manifest["sha256"].items():
        assert digest(site.home / file) == wanted
        assert (site.home / file).stat().st_size == manifest["bytes"][file]
    same = {(site.home / f"{name}_text_document.bin").stat().st_ino for name in ("my-gpt2", "tiny")}
    assert len(same) == 1
    assert manifest["documents"] == 3  # the empty one is left out, as upstream does
    assert (manifest["dtype"], manifest["vocab_size"], manifest["eod_token"]) == (
        "uint16",
        258,
        257,
    )
    assert manifest["inputs"]["tiny.jsonl.xz"] == {
        "address": "https://example.org/tiny.jsonl.xz",
        "bytes": (site.folder / "tiny.jsonl.xz").stat().st_size,
        "sha256": digest(site.folder / "tiny.jsonl.xz"),
    }
    assert os.listdir(site.root / ".work") == []
    assert site.fault() == ""
    assert answer.read(capfd.readouterr().out)["tiny"]["received"] > 0


def test_tokens_are_the_texts_each_ended(site: Site) -> None:
    assert site.stage() == 0
    tokenizer = tokenize_text.tokenizer_of(
        str(site.home / "vocab.json"), str(site.home / "merges.txt")
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    dataset = megatron_mmap.MmapDataset(site.home / "my-gpt2_text_document")
    texts = []
    for i in range(dataset.documents):
        *body, last = dataset.document(i).tolist()
        assert last == 257
        assert 257 not in body
        texts.append(tokenizer.decode(body))
    assert texts == [text for text in TEXTS if text]


def test_upstreams_own_dataset_comes_out_byte_for_byte(tmp_path: Path) -> None:
    """Megatron's tokens back to text, through our program, and the same tokens again."""
    source = Path(SHARED, "datasets")
    if not SHARED or not source.is_dir():
        pytest.skip("no TRAINBENCH_SHARED with upstream's datasets")
    prefix = "meg-gpt2-openwebtext_text_document"
    vocab, merges = (str(source / f"gpt2-tiny-{each}") for each in ("vocab.json", "merges.txt"))
    tokenizer = tokenize_text.tokenizer_of(vocab, merges)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    upstream = megatron_mmap.MmapDataset(source / prefix)
    with (tmp_path / "text.jsonl").open("w", encoding="utf-8") as lines:
        for i in range(upstream.documents):
            text = tokenizer.decode(upstream.document(i).tolist()[:-1])
            lines.write(json.dumps({"text": text}) + "\n")
    spec = {
        "texts": [str(tmp_path / "text.jsonl")],
        "key": "text",
        "append_eod": True,
        "vocab": vocab,
        "merges": merges,
        "prefix": str(tmp_path / "ours"),
    }
    tokenize_text.tokenize(spec)
    for end in (".bin", ".idx"):
        assert digest(tmp_path / f"ours{end}") == digest(source / f"{prefix}{end}")


@pytest.mark.parametrize("line", ["no json", '["text"]', '{"body": "x"}'])
def test_a_line_without_a_text_is_named(
    site: Site, line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    content = f'{{"text": "x"}}\n{line}\n'
    (site.folder / "tiny.jsonl.xz").write_bytes(lzma.compress(content.encode()))
    assert site.stage() == 1
    assert "tiny.jsonl is not a JSON object with a 'text'" in capfd.readouterr().err
    assert not site.home.exists()


def test_half_a_surrogate_pair_is_replaced(site: Site) -> None:
    content = '{"text": "a\\ud800b"}\n'
    (site.folder / "tiny.jsonl.xz").write_bytes(lzma.compress(content.encode()))
    assert site.stage() == 0


def test_a_recorded_checksum_is_compared_ever_after(
    site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    assert site.stage() == 0
    first = digest(site.folder / "tiny.jsonl.xz")
    lines = json.dumps({"text": "another file under the same address"})
    (site.folder / "tiny.jsonl.xz").write_bytes(lzma.compress(lines.encode()))
    (site.home / "tiny_text_document.bin").unlink()
    assert site.stage() == 1
    words = capfd.readouterr().err
    assert f"not {first} as its first download, which was recorded, says; it was removed" in words


def test_a_checksum_that_is_wrong_leaves_no_dataset(
    site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    site.entry["inputs"][1]["md5"] = "0" * 32
    assert site.stage() == 1
    words = capfd.readouterr().err
    assert words.splitlines()[-1].startswith(f"dataset tiny: gpt2-vocab.json from {site.folder}")
    assert not site.home.exists()
    site.entry["inputs"][1]["md5"] = digest(site.folder / "gpt2-vocab.json", "md5")
    assert site.stage() == 0
    assert '"resumed": 0' not in capfd.readouterr().out  # the text was not downloaded again


def test_a_folder_of_somebody_else_is_left_alone(
    site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    site.home.mkdir(parents=True)
    (site.home / "thesis.txt").write_text("")
    assert site.stage() == 1
    assert "holds files that setup did not put there; move them away" in capfd.readouterr().err
    assert os.listdir(site.home) == ["thesis.txt"]


def test_a_trainers_own_program_tokenizes(site: Site) -> None:
    """The trainer is a stand-in: a script that writes what tools/preprocess_data.py would."""
    home = site.root.parent / "systems" / "megatron" / "pin"
    (home / "env" / "bin").mkdir(parents=True)
    (home / "src" / "tools").mkdir(parents=True)
    python = home / "env" / "bin" / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (home / "src" / "tools" / "preprocess_data.py").write_text(
        "import argparse, sys\n"
        f"sys.path.insert(0, {str(PROJECT)!r})\n"
        "from node.dataset import tokenize_text\n"
        "p = argparse.ArgumentParser()\n"
        "for word in ('--input', '--output-prefix', '--vocab', '--merge-file', '--workers'):\n"
        "    p.add_argument(word, required=True)\n"
        "o = p.parse_args()\n"
        "tokenize_text.tokenize({'texts': [o.input], 'key': 'text', 'append_eod': True,\n"
        "    'vocab': o.vocab, 'merges': o.merge_file,\n"
        "    'prefix': o.output_prefix + '_text_document'})\n"
    )
    assert site.stage() == 0
    ours = digest(site.home / "tiny_text_document.bin")
    argv = ["tools/preprocess_data.py", "--input", "{text}", "--output-prefix", "{prefix}"]
    argv += ["--vocab", "{vocab}", "--merge-file", "{merges}", "--workers", "{processes}"]
    site.entry["program"] = {"system": "megatron", "pin": "pin", "argv": argv}
    assert "was made with program None" in site.fault()
    assert site.stage() == 0
    assert site.fault() == ""
    assert digest(site.home / "tiny_text_document.bin") == ours


def test_a_trainer_that_fails_is_quoted(site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    site.entry["program"] = {"system": "megatron", "pin": "pin", "argv": ["-c", "import nltk_"]}
    assert site.stage() == 1
    assert "made by megatron/pin, which is not on this node" in capfd.readouterr().err
    home = site.root.parent / "systems" / "megatron" / "pin"
    (home / "env" / "bin").mkdir(parents=True)
    (home / "src").mkdir()
    (home / "env" / "bin" / "python3").symlink_to(sys.executable)
    assert site.stage() == 1
    words = capfd.readouterr().err
    assert "megatron ended with 1" in words
    assert "No module named 'nltk_'" in words


def test_tokens_that_are_downloaded_keep_their_name(site: Site) -> None:
    with megatron_mmap.Writer(site.folder / "content_sentence", "uint16") as writer:
        writer.add_document([1, 2, 257])
    site.entry = {
        "inputs": [
            *site.entry["inputs"][1:],
            *(
                {
                    "file": f"content_sentence{end}",
                    "address": f"https://example.org/{end}",
                    "sha256": digest(site.folder / f"content_sentence{end}"),
                }
                for end in (".bin", ".idx")
            ),
        ],
        "vocab": "gpt2-vocab.json",
        "merges": "gpt2-merges.txt",
        "tokens": "content_sentence",
        "prefixes": ["content_sentence"],
    }
    assert site.stage() == 0
    assert site.fault() == ""
    assert megatron_mmap.check(site.home / "content_sentence").tokens == 3
    assert megatron_mmap.check(site.home / "tiny_text_document").tokens == 3


# What is staged


def test_faults_are_all_named(site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    assert site.stage() == 0
    (site.home / "vocab.json").unlink()
    with (site.home / "tiny_text_document.bin").open("r+b") as file:
        file.truncate(10)
    text = (site.home / "tiny.jsonl").read_text()
    (site.home / "tiny.jsonl").write_text(text.replace("small", "large"))
    capfd.readouterr()
    assert site.look("verify") == 1
    words = capfd.readouterr().err
    assert words.count("\n") == 1
    assert words.startswith("dataset tiny: ")
    assert f"{site.home}/vocab.json does not exist" in words
    assert f"{site.home}/tiny_text_document.bin has 10 bytes, not " in words
    assert f"{site.home}/tiny.jsonl has sha256 " in words
    assert words.endswith("; run setup's data step again\n")
    assert site.look("look") == 0


def test_a_file_is_read_again_only_if_it_may_have_changed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert site.stage() == 0
    assert site.fault() == ""
    read: list[str] = []
    real = checksum.sha256

    def watched(path: str) -> str:
        read.append(path)
        return real(path)

    monkeypatch.setattr(manifest_folders, "sha256", watched)
    assert site.fault() == ""
    assert read == []
    # the same size, and the old time put back: the kernel's own time of the change tells
    path = site.home / "tiny.jsonl"
    before = path.stat()
    path.write_text(path.read_text().replace("small", "large"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "tiny.jsonl has sha256" in site.fault()
    (once,) = read  # by one of its names
    assert os.path.samefile(once, path)


def test_a_look_writes_nothing_on_a_bare_node(site: Site) -> None:
    assert site.look("look") == 0
    assert site.fault() == f"{site.home}/dataset.json does not exist"
    assert not site.root.exists()


def test_what_a_trainer_computed_goes_with_the_tokens(site: Site) -> None:
    assert site.stage() == 0
    computed = site.home / "tiny_text_document_train_indexmap_9ns_8sl_1s_doc_idx.npy"
    computed.write_text("")
    (site.home / "notes.txt").write_text("mine")
    (site.home / "vocab.json").unlink()
    assert site.stage() == 0
    assert computed.exists()  # the tokens are the same
    site.entry["tokenise"]["append_eod"] = False
    assert "was made with tokenise" in site.fault()
    assert site.stage() == 0
    assert not computed.exists()
    assert (site.home / "notes.txt").exists()


def test_remove_takes_what_setup_put_there(site: Site) -> None:
    assert site.stage() == 0
    other = site.root / "own"
    other.mkdir()
    (other / "dataset.json").write_text('{"documents": 1}')
    spec = {"root": str(site.root), "check": True}
    assert inspection.remove(spec)["changed"]
    assert site.fault() == ""
    removed = inspection.remove({**spec, "check": False})
    line, *_ = removed.pop("told")
    assert re.fullmatch(rf"{re.escape(str(site.home))} \(\d+\.\d KiB\)", line)
    assert removed == {"changed": True, "removed": ["tiny"], "kept": ["own"]}
    assert os.listdir(site.root) == ["own"]
    assert not inspection.remove({**spec, "check": False})["changed"]


def test_remove_leaves_a_file_that_somebody_added(site: Site) -> None:
    assert site.stage() == 0
    (site.home / "notes.txt").write_text("mine")
    inspection.remove({"root": str(site.root), "check": False})
    assert os.listdir(site.home) == ["notes.txt"]


def test_two_programs_do_not_stage_at_once(
    site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(manifest_folders, "LOCK_S", 0)
    with manifest_folders.locked(str(site.root)):
        assert site.stage() == 1
    assert "another program stages data in" in capfd.readouterr().err
