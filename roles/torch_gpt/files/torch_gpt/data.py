"""Batches from a Megatron mmap dataset.

The documents of a part of the split are one stream of tokens; sample i is the ``seq_length + 1``
tokens from ``i x seq_length`` on (its last token is the next sample's first, as in Megatron).  The
samples of an epoch come in an order that the seed fixes, and iteration k takes the next
``global_batch_size`` of them whatever the number of ranks: the loss curve does not depend on it.
"""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import megatron_mmap
import numpy as np
import torch
from rules import TrainerError
from torch import Tensor


def vocab_size(prefix: str) -> int:
    """Return the vocabulary's size from ``dataset.json`` beside the data.

    Raises:
        TrainerError: there is no such file, or it is of another dataset.
    """
    path = Path(prefix).parent / "dataset.json"
    cure = "give --vocab-size"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if manifest["prefix"] != Path(prefix).name:
            raise TrainerError(
                f"{path} describes {manifest['prefix']}, not {Path(prefix).name}; {cure}"
            )
        return int(manifest["vocab_size"])
    except FileNotFoundError:
        raise TrainerError(
            f"{path} is missing, so that the vocabulary is unknown; {cure}"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainerError(f"{path} cannot be used ({error!r}); {cure}") from error


class Samples:
    """The samples of one part of the split, in a shuffled order that never ends."""

    def __init__(self, stream: Any, seq_length: int, seed: int, vocab: int, source: str) -> None:
        self.stream, self.seq_length, self.seed = stream, seq_length, seed
        self.vocab, self.source = vocab, source
        self.count = max(0, len(stream) - 1) // seq_length
        self._epoch = -1
        self._order: Any = None

    def _sample(self, i: int) -> Any:
        epoch, place = divmod(i, self.count)
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng([self.seed, epoch]).permutation(self.count)
        begin = int(self._order[place]) * self.seq_length
        return self.stream[begin : begin + self.seq_length + 1]

    def batch(self, first: int, size: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return inputs and targets, int64 [size, seq_length], of the samples from ``first`` on.

        Raises:
            TrainerError: a token is not in the vocabulary (CUDA would only say: assert).
        """
        rows = np.stack([self._sample(first + i) for i in range(size)]).astype(np.int64)
        if rows.max() >= self.vocab or rows.min() < 0:
            raise TrainerError(
                f"{self.source}.bin holds token {rows.max()}, not in a vocabulary of {self.vocab}; "
                "raise --vocab-size or use the dataset's own"
            )
        tokens = torch.from_numpy(rows)
        if device.type == "cuda":  # copy while the GPU still computes
            tokens = tokens.pin_memory().to(device, non_blocking=True)
        return tokens[:, :-1], tokens[:, 1:]


def load(options: Namespace, ranks: int, verify: bool) -> tuple[Samples, Samples, dict[str, int]]:
    """Open the dataset; return train and validation samples and the counts for the config line.

    Fills in ``options.vocab_size``.  ``verify`` reads the whole index; once a node is enough.

    Raises:
        TrainerError, megatron_mmap.DatasetError: the dataset or the vocabulary cannot be used.
    """
    prefix = options.data_path
    if verify:
        megatron_mmap.check(prefix)
    dataset = megatron_mmap.MmapDataset(prefix)
    valid_samples = options.eval_iters * options.micro_batch_size * ranks
    train_samples = options.train_iters * options.global_batch_size
    parts = megatron_mmap.split_documents(dataset.documents, options.split)
    # A part that begins below 0 is refused by check_split; it has no tokens to count.
    held = [len(dataset.stream(part)) if part and part.start >= 0 else 0 for part in parts]
    parts = megatron_mmap.check_split(
        dataset.documents,
        dataset.tokens,
        options.split,
        options.seq_length,
        train_samples,
        valid_samples,
        part_tokens=(held[0], held[1], held[2]),
    )
    if options.vocab_size is None:
        options.vocab_size = vocab_size(prefix)
    train, valid = (
        Samples(dataset.stream(part), options.seq_length, options.seed, options.vocab_size, prefix)
        for part in parts[:2]
    )
    counts = {
        "documents": dataset.documents,
        "tokens": dataset.tokens,
        "train_documents": len(parts[0]),
        "train_samples": train.count,
        "valid_samples": valid.count,
    }
    return train, valid, counts
