"""The catalogue, and plugins/datasets.py, which reads it."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from node.dataset import inspection, unpack
from plugins import datasets

ROOT = Path(__file__).resolve().parents[2]

CATALOGUE = yaml.safe_load((ROOT / "roles/dataset/vars/catalogue.yml").read_text())
NAMES = list(CATALOGUE["dataset_catalogue"])
CORPUS = {"vocab_size": 4096, "max_bytes": 16 << 20, "seed": 1234}
# What the documents' trainers open, by the number of the document.
LISTED = {
    "000": {
        "oscar-1GB": ["my-gpt2_text_document.bin", "gpt2-vocab.json", "gpt2-merges.txt"],
        "libai-loss-compara": ["loss_compara_content_sentence.idx", "gpt2-vocab.json"],
    },
    "001": {
        "oscar-en-10k": [
            "gpt2-merges.txt",
            "gpt2-vocab.json",
            "meg-gpt2-oscar-en-10k_text_document.bin",
            "meg-gpt2-oscar-en-10k_text_document.idx",
            "oscar-en-10k.jsonl",
        ]
    },
    "003": {"enwiki": ["encoder.json", "vocab.bpe"]},
    "004": {"enwiki": ["my-gpt_text_sentence.bin", "my-gpt_text_sentence.idx", "gpt2-vocab.json"]},
}


def entries(*names: str, own: Any = None, preprocess: Any = None) -> dict[str, Any]:
    return datasets.entries(CATALOGUE, names, own or {}, CORPUS, preprocess or {})


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_says_all_that_is_needed(name: str) -> None:
    entry = entries(name)[name]
    assert entry["title"]
    assert entry["licence"]
    if "corpus" in entry:
        return
    files = {each["file"] for each in entry["inputs"]}
    files |= {each["gives"] for each in entry["inputs"] if "unpack" in each}
    wanted = {entry["vocab"], entry["merges"], *entry.get("keep", [])}
    wanted |= {entry["text"]} if "text" in entry else set()
    wanted |= {entry["wiki"]["dump"]} if "wiki" in entry else set()
    wanted |= {entry["tokens"] + end for end in (".bin", ".idx")} if "tokens" in entry else set()
    assert wanted <= files
    assert len({"text", "wiki", "tokens"} & set(entry)) == 1
    assert ("tokens" in entry) != ("tokenise" in entry)


def test_addresses_are_public_and_checksums_have_their_form() -> None:
    for each in (each for entry in entries(*NAMES).values() for each in entry.get("inputs", [])):
        assert re.match(r"https://[a-z0-9.-]+/", each["address"])
        if each.get("sha256", "recorded") != "recorded":
            assert re.fullmatch("[0-9a-f]{64}", each["sha256"])
        assert re.fullmatch("[0-9a-f]{32}", each.get("md5", "0" * 32))
        assert each.get("unpack", "xz") in unpack.KINDS
        assert each["address"].endswith("/" + each["file"])


@pytest.mark.parametrize("document", LISTED)
def test_the_files_that_a_document_lists_are_there(document: str) -> None:
    for name, files in LISTED[document].items():
        entry = entries(name)[name]
        assert document in entry["documents"]
        there = {
            *inspection.aliases(name, entry),
            *entry.get("keep", []),
            "vocab.json",
            "merges.txt",
        }
        assert set(files) <= there


def test_every_preprocess_line_has_its_places_only() -> None:
    values = dict.fromkeys(("text", "vocab", "merges", "prefix", "processes"), "x")
    for entry in CATALOGUE["dataset_catalogue"].values():
        for word in entry.get("preprocess", []):
            word.format(**values)


def test_the_page_names_every_dataset() -> None:
    page = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    for name in NAMES:
        assert f"\n- `{name}`" in page, name
    for address in datasets.addresses(entries(*NAMES)):
        assert address in page, address


def test_an_inventorys_entry_replaces_one_of_the_catalogue() -> None:
    own = {
        "oscar-1GB": {
            "inputs": [
                {"file": "mine.jsonl", "address": "https://example.org/mine.jsonl", "sha256": "ab"},
                "gpt2-vocab",
                "gpt2-merges",
            ],
            "vocab": "gpt2-vocab.json",
            "merges": "gpt2-merges.txt",
            "text": "mine.jsonl",
            "tokenise": {"key": "text", "append_eod": True},
        }
    }
    entry = entries("oscar-1GB", own=own)["oscar-1GB"]
    assert [each["file"] for each in entry["inputs"]] == [
        "mine.jsonl",
        "gpt2-vocab.json",
        "gpt2-merges.txt",
    ]
    assert entries("unheard-of") == {"unheard-of": None}


@pytest.mark.parametrize(
    ("names", "own", "words"),
    [
        (["../x"], {}, "a name is letters"),
        (["x"], {"x": {"inputs": ["gpt3-vocab"]}}, "no input gpt3-vocab"),
        (["x"], {"x": {"inputs": [{"file": "a"}]}}, "an input has no 'address'"),
        (["x"], {"x": {"inputs": [{"file": "a", "address": "b"}]}}, "a has no checksum; give"),
    ],
)
def test_entries_that_are_refused(names: list[str], own: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        entries(*names, own=own)


def test_a_trainers_program_takes_the_documents_arguments() -> None:
    chosen = {"oscar-1GB": {"system": "megatron_deepspeed", "pin": "p"}}
    entry = entries("oscar-1GB", preprocess=chosen)["oscar-1GB"]
    assert entry["program"]["argv"][:3] == ["tools/preprocess_data.py", "--input", "{text}"]
    assert inspection.recipe(entry)["program"]["system"] == "megatron_deepspeed"
    assert datasets.needs({"oscar-1GB": entry}) == []
    with pytest.raises(ValueError, match="names x, which the catalogue does not have"):
        entries("default", preprocess={"x": {}})
    chosen = {"libai-loss-compara": {"system": "libai", "pin": "p"}}
    with pytest.raises(ValueError, match=r"dataset_preprocess\.libai-loss-compara needs argv"):
        entries("libai-loss-compara", preprocess=chosen)


def test_what_the_tools_must_do() -> None:
    assert datasets.needs(entries("default")) == ["tokenize"]
    assert datasets.needs(entries("libai-loss-compara")) == []
    assert datasets.needs(entries("enwiki")) == ["tokenize", "wiki"]


def test_the_tools_are_those_that_a_python_has() -> None:
    literals = yaml.safe_load((ROOT / "roles/dataset/vars/main.yml").read_text())
    assert datasets.tools(["tokenize"], "3.8", literals) == ["numpy==1.24.4", "tokenizers==0.20.3"]
    newest = datasets.tools(["tokenize", "wiki"], "3.99", literals)
    assert newest == [*literals["__dataset_pins_now"], "wikiextractor==3.0.8"]
    assert set(datasets.PINS) <= set(literals)
