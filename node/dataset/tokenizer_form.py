"""A vocabulary in the form of the package tokenizers, for a trainer that reads it so. Pure."""

from __future__ import annotations

from typing import Any


def tokenizer_form(vocabulary: dict[str, int], merges: str) -> dict[str, Any]:
    """Return vocab.json and the text of merges.txt as a tokenizer.json: GPT-2's, nothing special.

    torchtitan takes a merge of `#` in merges.txt for a comment, and would make other tokens.
    """
    pairs = [line for line in merges.split("\n") if line and not line.startswith("#version")]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    model = {"type": "BPE", "vocab": vocabulary, "merges": pairs}
    return {"version": "1.0", "added_tokens": [], "pre_tokenizer": level, "model": model}
