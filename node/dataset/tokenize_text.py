"""JSON lines to a Megatron mmap dataset with GPT-2's byte-level BPE, a document a line.

Does what Megatron's tools/preprocess_data.py does with ``--tokenizer-type GPT2BPETokenizer
--dataset-impl mmap --append-eod`` (a test compares the bytes with upstream's own dataset), without
torch and in one process, whose tokenizer is parallel itself. Runs in an environment with
``tokenizers`` and ``numpy``, which it imports when it tokenizes.

    dataset.tokenize_text:tokenize     write the dataset; answer what dataset.json says of it

Its spec: texts (files of JSON lines, in order), key (of the text in a line), vocab and merges (in
GPT-2's form), prefix (of the output), append_eod.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from node.answer import ProgramError
from node.dataset import megatron_mmap
from node.schema import Text

TEXT = Text(most=1 << 30, lines=True)  # a document
EOD = "<|endoftext|>"
BATCH_CHARACTERS = 2 << 20
INT32_FROM = 65500  # a vocabulary of so many tokens is stored as int32, as upstream does
PROGRESS_S = 30.0


class TextError(ProgramError):
    """The text cannot be tokenized; one sentence with the cure."""


def documents(paths: list[str], key: str) -> Iterator[str]:
    """The texts of all lines."""
    for path in paths:
        with open(path, encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                if not line.strip():
                    continue
                try:
                    text = TEXT.check(json.loads(line)[key], key)
                except (ValueError, KeyError, TypeError, RecursionError):
                    raise TextError(
                        f"line {number} of {path} is not a JSON object with a {key!r}; correct the "
                        "file or the catalogue"
                    ) from None
                try:
                    text.encode()
                except UnicodeEncodeError:  # half of a surrogate pair is no character
                    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
                yield text


def batches(texts: Iterator[str]) -> Iterator[list[str]]:
    """Some texts at a time, by their length."""
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def tokenizer_of(vocab: str, merges: str) -> Any:
    """GPT-2's tokenizer: nothing in a text is special, not even EOD's own words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE.from_file(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def tokenize(spec: dict[str, Any]) -> dict[str, Any]:
    """Write the dataset; what dataset.json says of it."""
    try:
        return _tokenize(spec)
    except (megatron_mmap.DatasetError, UnicodeDecodeError) as error:
        raise TextError(str(error)) from None


def _tokenize(spec: dict[str, Any]) -> dict[str, Any]:
    with open(spec["vocab"], encoding="utf-8") as stream:
        vocabulary = json.load(stream)
    if EOD not in vocabulary:
        raise TextError(f"{spec['vocab']} has no {EOD}; name GPT-2's vocabulary")
    end = [vocabulary[EOD]] if spec["append_eod"] else []
    dtype = "uint16" if len(vocabulary) < INT32_FROM else "int32"
    tokenizer = tokenizer_of(spec["vocab"], spec["merges"])
    # the fast one, of newer versions, leaves out the offsets that nobody reads
    encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
    count, last_report = 0, time.monotonic()
    with megatron_mmap.Writer(spec["prefix"], dtype) as writer:
        for batch in batches(documents(spec["texts"], spec["key"])):
            for encoding in encode(batch, add_special_tokens=False):
                if encoding.ids:  # upstream leaves out empty documents too
                    writer.add_document(list(itertools.chain(encoding.ids, end)))
                    count += 1
            if time.monotonic() - last_report > PROGRESS_S:
                last_report = time.monotonic()
                print(f"tokenized {count} documents", file=sys.stderr, flush=True)
    return {"vocab_size": len(vocabulary), "eod_token": vocabulary[EOD]}
