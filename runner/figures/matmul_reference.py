"""What doctor's matrix product reached on the devices of a run, beside their data sheet's peak."""

from collections.abc import Sequence
from statistics import fmean

from runner.figures.devices import find_device
from runner.terms.product import Products
from runner.terms.record import MIXED_FP8, Reached


def multiplied_in(arithmetic: str, device: str, kind: str) -> str:
    """Return what PyTorch multiplies in on that device: fp32 where tf32 is asked and is not there.

    `kind` is cuda, npu or cpu; `device` the name that nvidia-smi or npu-smi prints.
    """
    entry = find_device(device)
    lacks = kind == "cpu" or (entry is not None and "tf32" not in entry.peak)
    return "fp32" if arithmetic == "tf32" and lacks else arithmetic


def reached(
    products: Products,
    hosts: Sequence[str],
    ids: Sequence[int],
    arithmetic: str | None,
    kind: str,
) -> Reached:
    """Return what devices `ids` of the hosts (by node_rank) reached, TFLOP/s of one: their mean."""
    if arithmetic is None:
        return Reached(missing="the cell does not say in which precision it multiplies")
    if arithmetic == MIXED_FP8:
        return Reached(missing="fp8 and bf16 products mix, and doctor measures one of them")
    rates: list[float] = []
    for rank, host in enumerate(hosts):
        measured = products.nodes.get(host, ())
        product = next(
            (measurement for measurement in measured if measurement.arithmetic == arithmetic), None
        )
        if product is None:
            return Reached(
                missing=f"doctor had measured no matrix product in {arithmetic} on node_rank"
                f" {rank} within the week before the run"
            )
        count = len(product.tflop_per_s)
        if kind == "cpu" and len(ids) != count:
            return Reached(
                missing=f"doctor measured {count} processes on the cores of node_rank {rank}, and"
                f" the run had {len(ids)}"
            )
        if max(ids) >= count:
            return Reached(
                missing=f"doctor measured devices 0 to {count - 1} of node_rank {rank}, and"
                f" the run had {max(ids)}"
            )
        rates += [product.tflop_per_s[number] for number in ids]
    rate = fmean(rates)
    return Reached(rate, "") if rate > 0 else Reached(missing="doctor's matrix product reached 0")
