"""A row as a speed to be judged, and as a reference for others. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from runner.expect.answer import expect
from runner.expect.references import Speed, shipped, split_text
from runner.tables.row import Row, finished, value
from runner.terms.record import MIXED_FP8

_SIZES = {
    "TP": "tensor_parallel",
    "PP": "pipeline_parallel",
    "CP": "context_parallel",
    "EP": "expert_parallel",
}


def subject_of(row: Row) -> Speed | None:
    """Return the row's speed with its conditions; None where `why_no_subject` says why."""
    figures, model = row["figures"], row["model"]
    if why_no_subject(row):
        return None
    arithmetic = figures["arithmetic"]
    return Speed(
        figure=figures["tokens_per_s_per_device"],
        unit="tokens_per_s_per_device",
        device=figures["device"],
        devices=figures["devices"],
        model=_model(row),
        parameters_b=model["parameters_b"] if model else None,
        active_parameters_b=model["active_parameters_b"] if model else None,
        precision="fp8" if arithmetic == MIXED_FP8 else arithmetic or "",
        micro_batch_size=figures["micro_batch_size"],
        global_batch_size=figures["global_batch_size"],
        tokens_per_sample=figures["tokens_per_sample"],
        trainer=row["system"],
        recomputation=_recomputation(row["parameters"]),
        model_parallel=split_text(
            {word: int(value(row, name) or 1) for word, name in _SIZES.items()}
        ),
    )


def _recomputation(parameters: Mapping[str, Any]) -> str:
    asked = parameters.get("activation_checkpointing")
    if isinstance(asked, bool):
        return "full" if asked else "none"
    return asked if asked in ("none", "selective", "full") else ""


def why_no_subject(row: Row) -> str:
    """Say why a row has no speed that can be compared; empty where it has one."""
    if not finished(row):
        return f"no run of it ended ok ({row['status']})"
    if row["figures"]["tokens_per_s_per_device"] is None:
        return "its tokens/s are not known"
    named = row["figures"]["device"]
    return "" if named else "it names no device (CPUs are compared by `history` alone)"


def reference_of(row: Row, campaign: str) -> Speed | None:
    """Return a row of an earlier campaign as what its machine reached; None without a speed."""
    subject = subject_of(row)
    return subject and replace(
        subject,
        model=subject.model or "model not named",
        version=str(row["parameters"].get("pin") or ""),
        where=row["cell"],
        address=f"campaign {campaign}",
        read=row["figures"]["date"] or "",
    )


def add_expectations(table: Sequence[Row], references: Sequence[Speed] | None = None) -> None:
    """Set beside each row what others reached, where that can be compared.

    `references` None are those that come with the product; what this project measured is none.
    """
    for row in table:
        subject = subject_of(row)
        if subject is None:
            continue
        known = shipped() if references is None else references
        found = expect(subject, [each for each in known if not each.is_ours])
        if found is None or found.percent is None:
            continue
        row["expected"] = {
            "percent": found.percent,
            "same": not found.differences,
            "differences": found.difference_words,
            "words": found.words,
        }
    if any(row["expected"] for row in table):
        for row in table:
            expected = row["expected"]
            row["figures"]["expected_percent"] = expected and expected["percent"]
            if not expected:
                row["missing"]["expected_percent"] = "no known published figure matches"


def _model(row: Row) -> str:
    model = value(row, "model") or value(row, "flavor")
    return model if isinstance(model, str) else ""
