"""What a command line and a log say of the work, to be compared with the cell. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

# What defines the work of a run: with less of any, it is faster.
WORK = (
    *("seq_length", "global_batch_size", "micro_batch_size", "num_layers", "hidden_size"),
    *("num_attention_heads", "vocab_size", "train_iters", "seed"),
)
MOST_LINES = 20_000  # of a log, before its first steps
_WORDS = "|".join(WORK)
_PAIR = re.compile(rf"\b({_WORDS})=(\d{{1,15}})\b")  # torch_gpt's line of its settings
_DOTTED = re.compile(rf"^\s*(?:\[[^\]]*\]:?)?\s*({_WORDS}) \.{{3,}} (\d{{1,15}})\s*$")  # Megatron's


def cell_settings(parameters: Mapping[str, Any], model: object) -> dict[str, int]:
    """Return what the cell says of the work: its parameters, and the shape of its model."""
    shape = (
        {field.name: getattr(model, field.name) for field in fields(model)}
        if is_dataclass(model) and not isinstance(model, type)
        else {}
    )
    settings = {**shape, **{key: value for key, value in parameters.items() if value is not None}}
    return {
        key: settings[key]
        for key in WORK
        if isinstance(settings.get(key), int) and not isinstance(settings[key], bool)
    }


def of_argv(argv: Iterable[str]) -> dict[str, int]:
    """Return the same of a command line: `--seq-length 1024`, `--seq_length=1024`."""
    arguments = list(argv)
    settings = {}
    for index, word in enumerate(arguments):
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        value = value if equals else arguments[index + 1] if index + 1 < len(arguments) else ""
        if name in WORK and value.isdecimal():
            settings[name] = int(value)
    return settings


def of_log(lines: Iterable[str]) -> dict[str, int]:
    """Return the same of the lines before a trainer's first step."""
    settings: dict[str, int] = {}
    for line in lines:
        pairs = [match.groups() for match in _PAIR.finditer(line)]
        if match := _DOTTED.match(line):
            pairs.append(match.groups())
        for name, value in pairs:
            settings.setdefault(name, int(value))
    return settings


def differences(cell: Mapping[str, int], printed: Mapping[str, int]) -> Iterator[str]:
    """Yield what the other says differently."""
    for key in WORK:
        # A vocabulary is padded, which is told apart elsewhere.
        if key in cell and key in printed and cell[key] != printed[key] and key != "vocab_size":
            yield f"{key} is {printed[key]}, not {cell[key]}"
