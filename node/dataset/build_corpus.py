"""Make a small GPT training set from text that every machine has already, without a network.

The text is the source of the running Python's own standard library and the licence texts of the
system; each file is one document.  A byte-level BPE vocabulary is trained on it, every document is
encoded and ended by ``<|endoftext|>``, and the result is a Megatron mmap dataset that all GPT
trainers here can read:

    DIR/NAME_text_document.bin, .idx   tokens, uint16 (see megatron_mmap.py)
    DIR/vocab.json, DIR/merges.txt     the vocabulary, in GPT-2's form
    DIR/text/AA/wiki_00, wiki_01...    with with_text: the text, laid out as by WikiExtractor
    DIR/c4_test/data.json              and as JSON lines, by torchtitan's name
    DIR/dataset.json                   what this is: counts, vocabulary, checksums, source

    dataset.build_corpus:make     make it; answer the content of dataset.json

Its spec: output (DIR), name, vocab_size, max_bytes, seed (order of the documents), with_text (write
the text, too), stdlib (folder of .py files; this Python's own), licences (their folder).

It is deterministic: the same Python, tokenizers and licence texts give the same bytes, so that
nodes of one image agree on the checksums.  DIR appears, or is replaced, when all is done.
Needs ``tokenizers`` and ``numpy``, which it imports when it makes the corpus.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import platform
import random
import shutil
import sysconfig
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from node.answer import ProgramError
from node.checksum import sha256
from node.dataset import megatron_mmap

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SCHEMA = 1
EOD = "<|endoftext|>"
LICENCES = Path("/usr/share/common-licenses")
# Python's own tests are odd text (and half of the library); site-packages differs per machine.
SKIPPED_FOLDERS = frozenset({"test", "tests", "idle_test", "site-packages", "dist-packages"})
MIN_VOCAB = 257  # 256 bytes and the end-of-document token
MAX_VOCAB = 65500  # upstream stores vocabularies from here on as int32 instead of uint16


class CorpusError(ProgramError):
    """The corpus cannot be made; the message is one sentence with the cure."""


def _files(root: Path, patterns: Sequence[str]) -> Iterator[Path]:
    paths = (path for pattern in patterns for path in root.rglob(pattern))
    for path in sorted(paths):
        if not SKIPPED_FOLDERS.intersection(path.relative_to(root).parts):
            yield path


def read_documents(stdlib: Path, licences: Path, max_bytes: int, seed: int) -> list[str]:
    """Return the documents, at most ``max_bytes`` of UTF-8 in all, in an order fixed by ``seed``.

    The order is shuffled since a trainer's split cuts by position: sorted, the validation part
    would be a different kind of text.  Files that are empty, not UTF-8, or copies are left out.
    """
    paths = [*_files(stdlib, ("*.py", "LICENSE*")), *_files(licences, ("*",))]
    random.Random(seed).shuffle(paths)  # noqa: S311  # an order, not a secret
    digests: set[bytes] = set()
    documents: list[str] = []
    bytes_left = max_bytes
    for path in paths:
        if not path.is_file():
            continue
        data = path.read_bytes()
        digest = hashlib.sha256(data).digest()
        if not data.strip() or len(data) > bytes_left or digest in digests:
            continue
        digests.add(digest)
        try:
            documents.append(data.decode("utf-8"))
        except UnicodeDecodeError:
            continue
        bytes_left -= len(data)
    if not documents:
        raise CorpusError(
            f"no text of at most {max_bytes} bytes was found in {stdlib} and {licences}; raise "
            "dataset_max_bytes or install Python's standard library"
        )
    return documents


def train_tokenizer(documents: Sequence[str], vocab_size: int) -> Tokenizer:
    """Train a byte-level BPE as GPT-2's, with ``EOD`` as token 0.

    Raises:
        CorpusError: the text is too short to give ``vocab_size`` tokens.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[EOD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer, length=len(documents))
    if tokenizer.get_vocab_size() != vocab_size:
        raise CorpusError(
            f"the text gives only {tokenizer.get_vocab_size()} tokens, not {vocab_size}; lower "
            "dataset_vocab_size or raise dataset_max_bytes"
        )
    # A file that spells out EOD's text must not end its document there.
    tokenizer.encode_special_tokens = True
    return tokenizer


def _write_json(path: Path, value: Any, **options: Any) -> None:
    path.write_text(json.dumps(value, **options) + "\n", encoding="utf-8")


def _write_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write vocab.json and merges.txt in GPT-2's form, tokens in the order of their numbers.

    tokenizers' own ``save`` writes the vocabulary in the order of a hash map in some versions.
    """
    model = json.loads(tokenizer.to_str())["model"]
    vocabulary = dict(sorted(model["vocab"].items(), key=lambda item: int(item[1])))
    _write_json(folder / "vocab.json", vocabulary, ensure_ascii=False)
    pairs = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    text = "\n".join(["#version: 0.2", *pairs]) + "\n"
    (folder / "merges.txt").write_text(text, encoding="utf-8")


def _write_tokens(documents: Sequence[str], tokenizer: Tokenizer, prefix: Path) -> None:
    eod = tokenizer.get_vocab()[EOD]
    with megatron_mmap.Writer(prefix, "uint16") as writer:
        for start in range(0, len(documents), 100):
            batch = tokenizer.encode_batch(documents[start : start + 100], add_special_tokens=False)
            for encoding in batch:
                writer.add_document([*encoding.ids, eod])


def _write_text(documents: Sequence[str], folder: Path) -> None:
    """Write files of about 1 MiB of whole documents, for a trainer that tokenizes by itself."""
    folder.mkdir(parents=True)
    begins = itertools.accumulate((len(text) for text in documents), initial=0)
    files = ((begin >> 20, text) for begin, text in zip(begins, documents))
    for number, (_, texts) in enumerate(itertools.groupby(files, key=lambda pair: pair[0])):
        text = "\n".join(text for _, text in texts)
        (folder / f"wiki_{number:02d}").write_text(text, encoding="utf-8")


def _write_json_lines(documents: Sequence[str], path: Path) -> None:
    """Write a line `{"text": ...}` a document."""
    path.parent.mkdir()
    with path.open("w", encoding="utf-8") as lines:
        for text in documents:
            lines.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")


def _manifest(name: str, folder: Path, vocab_size: int, eod: int, source: str) -> dict[str, Any]:
    import tokenizers

    summary = megatron_mmap.check(folder / f"{name}_text_document")
    files = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    return {
        "schema": SCHEMA,
        "name": name,
        "prefix": f"{name}_text_document",
        "documents": summary.documents,
        "sequences": summary.sequences,
        "tokens": summary.tokens,
        "dtype": summary.dtype,
        "vocab_size": vocab_size,
        "eod_token": eod,
        "bytes": {file: path.stat().st_size for file, path in files.items()},
        "sha256": {file: sha256(str(path)) for file, path in files.items()},
        "source": source,
        "python_version": platform.python_version(),
        "tokenizers_version": tokenizers.__version__,
    }


def _refuse_foreign(output: Path) -> None:
    """Replacing the folder must never delete something that this program did not make."""
    if output.exists() and not (output / "dataset.json").is_file() and any(output.iterdir()):
        raise CorpusError(
            f"{output} holds files that are not such a dataset; name a new or empty folder"
        )


def _replace(new: Path, output: Path) -> None:
    """Put ``new`` in the place of ``output``; rename alone cannot replace a folder with files."""
    old = output.with_name(f".{output.name}.old-{os.getpid()}")
    if output.exists():
        output.rename(old)
    new.rename(output)
    shutil.rmtree(old, ignore_errors=True)


def build(
    output: Path,
    name: str,
    vocab_size: int,
    max_bytes: int,
    seed: int,
    stdlib: Path,
    licences: Path,
    with_text: bool = False,
) -> dict[str, Any]:
    """Make the dataset in ``output`` and return its manifest, the content of dataset.json.

    Raises:
        CorpusError: no or too little text, a size out of range, or a foreign folder.
    """
    if not MIN_VOCAB <= vocab_size < MAX_VOCAB:
        raise CorpusError(
            f"dataset_vocab_size {vocab_size} is out of range; give {MIN_VOCAB} to {MAX_VOCAB - 1}"
        )
    _refuse_foreign(output)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"build_corpus [{time.monotonic() - began:5.1f} s] {text}", flush=True)

    output.parent.mkdir(parents=True, exist_ok=True)
    work = output.with_name(f".{output.name}.part-{os.getpid()}")
    work.mkdir()
    try:
        documents = read_documents(stdlib, licences, max_bytes, seed)
        size = sum(len(text.encode()) for text in documents)
        say(f"read {len(documents)} documents, {size} bytes; training a vocabulary")
        tokenizer = train_tokenizer(documents, vocab_size)
        _write_tokenizer(tokenizer, work)
        say(f"trained {vocab_size} tokens; encoding")
        _write_tokens(documents, tokenizer, work / f"{name}_text_document")
        if with_text:
            _write_text(documents, work / "text" / "AA")
            _write_json_lines(documents, work / "c4_test" / "data.json")
        source = (
            f"standard library sources of Python {platform.python_version()} and licence texts, "
            f"one document a file, at most {max_bytes} bytes, order of seed {seed}"
        )
        manifest = _manifest(name, work, vocab_size, tokenizer.get_vocab()[EOD], source)
        manifest["recipe"] = {"vocab_size": vocab_size, "max_bytes": max_bytes, "seed": seed}
        _write_json(work / "dataset.json", manifest, indent=2)
        _replace(work, output)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    say(f"wrote {manifest['tokens']} tokens in {manifest['documents']} documents to {output}")
    return manifest


def make(spec: dict[str, Any]) -> dict[str, Any]:
    """Make the corpus. Raises CorpusError."""
    try:
        return build(
            Path(spec["output"]).absolute(),
            spec["name"],
            spec["vocab_size"],
            spec["max_bytes"],
            spec["seed"],
            Path(spec.get("stdlib") or sysconfig.get_path("stdlib")),
            Path(spec.get("licences") or LICENCES),
            spec.get("with_text", False),
        )
    except (CorpusError, megatron_mmap.DatasetError) as error:
        raise CorpusError(f"build_corpus error: {error}") from None
    except ImportError as error:
        message = f"{error}; install tokenizers and numpy"
        raise CorpusError(f"build_corpus error: {message}") from None
    except OSError as error:
        message = f"{error}; check the folder and its space"
        raise CorpusError(f"build_corpus error: {message}") from None
