"""A vocabulary in tokenizers' own form gives the tokens of the same in GPT-2's two files."""

import json
from pathlib import Path

import pytest

from node.dataset.tokenize_text import tokenizer_of
from node.dataset.tokenizer_form import tokenizer_form

tokenizers = pytest.importorskip("tokenizers")

TEXTS = ("## a rule ##", "#!/bin/sh\n# a\n\n##", "caf\u00e9  <|endoftext|> no end", "")


def test_it_gives_the_same_tokens(tmp_path: Path) -> None:
    """Merges of # too, which look like comments."""
    level = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    tokens = ["<|endoftext|>", *sorted(level), "##", "\u0120a", "\u0120##"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    merges = "#version: 0.2\n# #\n\u0120 a\n\u0120 ##\n"
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (tmp_path / "merges.txt").write_text(merges, encoding="utf-8")
    theirs = tokenizer_of(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    form = tokenizer_form(vocabulary, merges)
    ours = tokenizers.Tokenizer.from_str(json.dumps(form, ensure_ascii=False))
    for text in TEXTS:
        assert ours.encode(text).ids == theirs.encode(text).ids
    assert vocabulary["##"] in ours.encode(TEXTS[0]).ids
