"""A row as a speed to be judged, and as a reference for others. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from runner.expect.conditions import Subject, device_kind, precision_of
from runner.expect.expectation import expect
from runner.expect.references import Reference, shipped, split_text
from runner.figures.flops import Decoder
from runner.tables.row import Row

BILLION = 1e9
_SIZES = {
    "TP": "tensor_parallel",
    "PP": "pipeline_parallel",
    "CP": "context_parallel",
    "EP": "expert_parallel",
}


def subject_of(row: Row) -> Subject | None:
    """Return the row's speed with its conditions; None where `why_no_subject` says why."""
    rate = row.tokens_per_s_per_device
    if why_no_subject(row) or rate is None:
        return None
    record, (total, active) = row.record, _parameters(row)
    return Subject(
        tokens_per_s_per_device=rate,
        device=row.device,
        devices=record.world_size,
        model=_model(row),
        parameters_b=total,
        active_parameters_b=active,
        precision=precision_of(row.arithmetic),
        micro_batch_size=record.micro_batch_size,
        global_batch_size=record.global_batch_size,
        tokens_per_sample=record.sample_length,
        trainer=record.system,
        recomputation=_recomputation(record.parameters),
        model_parallel=split_text(
            {word: int(row.value(name) or 1) for word, name in _SIZES.items()}
        ),
    )


def _recomputation(parameters: Mapping[str, Any]) -> str:
    asked = parameters.get("activation_checkpointing")
    if isinstance(asked, bool):
        return "full" if asked else "none"
    return asked if asked in ("none", "selective", "full") else ""


def why_no_subject(row: Row) -> str:
    """Say why a row has no speed that can be compared; empty where it has one."""
    if not row.finished:
        return f"no run of it ended ok ({row.status})"
    if row.tokens_per_s_per_device is None:
        return "its tokens/s are not known"
    return "" if row.device else "it names no device (CPUs are compared by `history` alone)"


def reference_of(row: Row, campaign: str) -> Reference | None:
    """Return a row of an earlier campaign as what its machine reached; None without a speed."""
    subject = subject_of(row)
    if subject is None:
        return None
    rate = subject.tokens_per_s_per_device
    return Reference(
        device=device_kind(row.device),
        devices=row.record.world_size,
        model=subject.model or "model not named",
        trainer=row.record.system,
        version=str(row.record.parameters.get("pin") or ""),
        figure=rate,
        unit="tokens_per_s_per_device",
        quoted=f"{rate:.6g}",
        where=row.cell,
        address=f"campaign {campaign}",
        read=row.record.date,
        device_detail=_memory(row.device),
        parameters_b=subject.parameters_b,
        active_parameters_b=subject.active_parameters_b,
        precision=subject.precision,
        micro_batch_size=subject.micro_batch_size,
        global_batch_size=subject.global_batch_size,
        tokens_per_sample=subject.tokens_per_sample,
    )


def with_expectations(
    table: Sequence[Row], references: Sequence[Reference] | None = None
) -> list[Row]:
    """Set beside each row what others reached, where that can be compared.

    `references` None are those that come with the product; what this project measured is none.
    """
    rows = []
    for row in table:
        subject = subject_of(row)
        if subject is not None:
            known = shipped() if references is None else references
            expectation = expect(subject, [each for each in known if not each.is_ours])
            row = replace(
                row, expectation=expectation if expectation and expectation.comparable else None
            )
        rows.append(row)
    return rows


def _model(row: Row) -> str:
    model = row.value("model") or row.value("flavor")
    return model if isinstance(model, str) else ""


def _parameters(row: Row) -> tuple[float | None, float | None]:
    model = row.record.model
    if not isinstance(model, Decoder):
        return None, None
    padded = row.vocabulary[0] if row.vocabulary else 0
    model = replace(model, vocab_size=padded or model.vocab_size)
    total, active = (count / BILLION for count in model.parameters)
    return total, active


def _memory(device: str) -> str:
    """Return the memory that a device's name has: NVIDIA A100-SXM4-80GB."""
    parts = device.replace("-", " ").split()
    return next((word for word in parts if word[:-2].isdigit() and word.endswith("GB")), "")
