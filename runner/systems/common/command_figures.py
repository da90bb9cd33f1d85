"""What a matrix of `system: command` says of samples, tokens and model: products of its keys."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from node.schema import UnfitError
from runner.base.dataclass_schema import read
from runner.base.errors import UserError
from runner.base.suggest import nearest
from runner.figures.flops import Decoder, PerToken
from runner.systems.common import placeholders
from runner.systems.common.command_keys import ABOUT, own_keys, sizes
from runner.terms.architecture import Architecture
from runner.terms.cell import Cell


def samples(cell: Cell) -> int | None:
    """Return the samples of an iteration, as the matrix counts them."""
    values = {**own_keys(cell), **sizes(cell)}
    count = placeholders.product(cell.parameters["samples_per_step"], values, "samples_per_step")
    if count is not None and count != int(count):
        raise UserError(f"samples_per_step is {count:g}; it must be a whole number")
    return None if count is None else int(count)


def model(parameters: Mapping[str, Any]) -> Architecture | None:
    """Return what the matrix says of the model; None where it says nothing that gives FLOPs."""
    values = {key: value for key, value in parameters.items() if key not in ABOUT}
    length = tokens(parameters)
    per_token = placeholders.product(
        parameters.get("model_flops_per_token"), values, "model_flops_per_token"
    )
    shape = parameters.get("architecture")
    if shape is not None and per_token is not None:
        raise UserError("architecture and model_flops_per_token both say the FLOPs; keep one")
    if shape is None and per_token is None:
        return None
    if length is None:
        raise UserError("the FLOPs of a sample need tokens_per_sample; give it")
    if per_token is not None:
        return PerToken(per_token, length)
    return _decoder(shape or {}, values, length)


def _decoder(shape: Mapping[str, Any], values: Mapping[str, Any], length: int) -> Decoder:
    names = [field.name for field in fields(Decoder)]
    for key in shape:
        if key not in names:
            raise UserError(
                f"architecture: {key!r} is not a size of a model{nearest(str(key), names)}; known"
                f" sizes: {', '.join(names)}"
            )
    sizes = {
        key: value
        if isinstance(value, bool)
        else _whole_product(value, values, f"architecture: {key}")
        for key, value in shape.items()
    }
    try:
        decoder = read(Decoder, {"seq_length": length, **sizes}, "architecture")
    except UnfitError as error:
        raise UserError(str(error)) from None
    if decoder.seq_length != length:
        raise UserError(
            f"architecture says seq_length {decoder.seq_length}, and tokens_per_sample is {length};"
            " keep one"
        )
    return decoder


def _whole_product(value: Any, values: Mapping[str, Any], where: str) -> int:
    number = placeholders.product(value, values, where)
    if number is None or number != int(number):
        raise UserError(f"{where} is {value!r}; it must be a whole number above 0")
    return int(number)


def tokens(parameters: Mapping[str, Any]) -> int | None:
    """Return the tokens of a sample, as the matrix counts them."""
    values = {key: value for key, value in parameters.items() if key not in ABOUT}
    length = placeholders.product(parameters.get("tokens_per_sample"), values, "tokens_per_sample")
    if length is not None and length != int(length):
        raise UserError(f"tokens_per_sample is {length:g}; it must be a whole number")
    return None if length is None else int(length)
