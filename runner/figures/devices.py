"""What a device can do at most: dense matrix TFLOP/s by arithmetic, from its maker's data sheet.

Dense: data sheets since Ampere print the rate with 2:4 sparsity beside or instead of it; no
training here uses that, so theirs is halved. `fp16` and `bf16` are the tensor cores' rates with
fp32 accumulation, `tf32` and `fp8` likewise; `fp32` is without tensor cores. A rate that a device
lacks is not there: V100 and T4 multiply neither bf16 nor tf32, A100 no fp8.

Devices are recognised by the name that nvidia-smi or npu-smi prints. A name that is not in the
table has no peak: a peak of the wrong card would give a wrong MFU without anybody noticing.

`reached` is what doctor's matrix product reached on the devices of a run, beside that.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from runner.terms.product import Products
from runner.terms.record import MIXED_FP8, Reached


@dataclass(frozen=True)
class Device:
    """One kind of device: `pattern` matches its name whole, `peak` is in TFLOP/s, dense."""

    name: str
    pattern: str
    peak: Mapping[str, float]
    source: str


def _half(rate: float, tf32: float, fp32: float, fp8: float | None = None) -> dict[str, float]:
    """Give bf16 and fp16 the same rate; fp8 None: the device has none."""
    rates = {"bf16": rate, "fp16": rate, "tf32": tf32, "fp32": fp32}
    return rates if fp8 is None else {**rates, "fp8": fp8}


_V100 = "NVIDIA V100 Tensor Core GPU data sheet (January 2020)"
_A100 = "NVIDIA A100 Tensor Core GPU data sheet (2188504, June 2021)"
_H100 = "NVIDIA H100 Tensor Core GPU data sheet (2023), rates with sparsity halved"
_H200 = "NVIDIA H200 Tensor Core GPU data sheet (2024), rates with sparsity halved"
_B200 = "NVIDIA Blackwell data sheet (2024), HGX B200 column, rates with sparsity halved"
_GB200 = "NVIDIA GB200 NVL72 data sheet (2024), Grace Blackwell column, a GPU, sparsity halved"
_B300 = "NVIDIA Blackwell Ultra data sheet (2025), HGX B300 column, an eighth, sparsity halved"
_GB300 = "NVIDIA GB300 NVL72 data sheet (2025), a 72nd, rates with sparsity halved"
_H20 = "NVIDIA H20 data sheet (2023), dense"
_RTX_PRO = "NVIDIA RTX Blackwell PRO GPU Architecture white paper V1.0, appendix A"
_RTX_SERVER = "NVIDIA RTX PRO 6000 Blackwell Server Edition data sheet (2025), sparsity halved"
_GA102 = "NVIDIA Ampere GA102 GPU Architecture white paper V2, appendix A"
_ADA = "NVIDIA Ada GPU Architecture white paper V2, appendix A"
_MI250X = "AMD Instinct MI250X data sheet (2021), halved: a card has two devices"
_MI300X = "AMD Instinct MI300X data sheet (2023), dense"
_MI325X = "AMD Instinct MI325X data sheet (2024), dense"
_MI350X = "AMD Instinct MI350X data sheet (2025), dense"
_MI355X = "AMD Instinct MI355X data sheet (2025), dense"
_ASCEND = "Huawei, launch of Ascend 910 and MindSpore, 23 August 2019"
DEVICES = (
    Device(
        "V100 SXM2",
        r"Tesla V100-SXM[23]-\d+GB(-LS)?",
        {"fp16": 125, "fp32": 15.7},
        _V100,
    ),
    Device("V100 PCIe", r"Tesla V100-PCIE-\d+GB", {"fp16": 112, "fp32": 14}, _V100),
    Device("V100S PCIe", r"Tesla V100S-PCIE-\d+GB", {"fp16": 130, "fp32": 16.4}, _V100),
    Device("T4", r"Tesla T4", {"fp16": 65, "fp32": 8.1}, "NVIDIA T4 data sheet (2019)"),
    # SXM4 and PCIe cards of 40 and 80 GB have the same rates; the A800 lacks NVLink bandwidth only.
    Device(
        "A100",
        r"A[18]00[- ](SXM4-|PCIE-)?\d+GB( PCIe| LC)?|A800-SXM4-\d+GB",
        _half(312, 156, 19.5),
        _A100,
    ),
    Device("A10", r"A10", _half(125, 62.5, 31.2), "NVIDIA A10 data sheet (2021)"),
    Device("H100 SXM", r"H[18]00 80GB HBM3", _half(989.5, 494.5, 67, 1979), _H100),
    Device("H100 PCIe", r"H100 PCIe", _half(756.5, 378, 51, 1513), _H100),
    Device("H100 NVL", r"H100 NVL", _half(835.5, 417.5, 60, 1670.5), _H100),
    Device("H200 SXM", r"H200", _half(989.5, 494.5, 67, 1979), _H200),
    Device("H200 NVL", r"H200 NVL", _half(835.5, 417.5, 60, 1670.5), _H200),
    Device("B200", r"B200", _half(2250, 1100, 75, 4500), _B200),
    Device("GB200", r"GB200", _half(2500, 1250, 80, 5000), _GB200),
    Device("B300", r"B300( SXM6( AC)?)?", _half(2250, 1125, 75, 4500), _B300),
    Device("GB300", r"GB300", _half(2500, 1250, 83.3, 5000), _GB300),
    Device("H20", r"H20(-3e)?", _half(148, 74, 44, 296), _H20),
    Device(
        "RTX PRO 6000",
        r"RTX PRO 6000 Blackwell Workstation Edition",
        _half(503.8, 251.9, 126, 1007.6),
        _RTX_PRO,
    ),
    Device(
        "RTX PRO 6000 Server",
        r"RTX PRO 6000 Blackwell Server Edition",
        _half(500, 250, 120, 1000),
        _RTX_SERVER,
    ),
    Device("L4", r"L4", _half(121, 60, 30.3, 242.5), "NVIDIA L4 data sheet (2023), halved"),
    Device("L40S", r"L40S", _half(362, 183, 91.6, 733), "NVIDIA L40S data sheet (2023)"),
    Device("RTX 3090", r"GeForce RTX 3090", _half(71, 35.6, 35.6), _GA102),
    Device("RTX 4090", r"GeForce RTX 4090", _half(165.2, 82.6, 82.6, 330.3), _ADA),
    # A device is one of the card's two dies.
    Device(
        "MI250X",
        r"AMD Instinct MI250X( / MI250)?",
        {"bf16": 191.5, "fp16": 191.5, "fp32": 47.9},
        _MI250X,
    ),
    Device(
        "MI300X",
        r"AMD Instinct MI300X( OAM)?",
        _half(1307.4, 653.7, 163.4, 2614.9),
        _MI300X,
    ),
    Device(
        "MI325X",
        r"AMD Instinct MI325X( OAM)?",
        _half(1307.4, 653.7, 163.4, 2614.9),
        _MI325X,
    ),
    # They multiply no tf32.
    Device(
        "MI350X",
        r"AMD Instinct MI350X( OAM)?",
        {"bf16": 2306.9, "fp16": 2306.9, "fp32": 144.2, "fp8": 4613.7},
        _MI350X,
    ),
    Device(
        "MI355X",
        r"AMD Instinct MI355X( OAM)?",
        {"bf16": 2516.6, "fp16": 2516.6, "fp32": 157.3, "fp8": 5033.2},
        _MI355X,
    ),
    Device("Ascend 910A", r"(Ascend ?)?910A", {"fp16": 256}, _ASCEND),
)


def find_device(name: str) -> Device | None:
    """Find the device that nvidia-smi or npu-smi prints as `name`."""
    short = re.sub(r"^NVIDIA ", "", name.strip())
    return next((device for device in DEVICES if re.fullmatch(device.pattern, short)), None)


def peak(name: str, arithmetic: str | None) -> tuple[float | None, str]:
    """Return dense peak of a device in TFLOP/s, and where it is from; None and why there is
    none.
    """
    if arithmetic == MIXED_FP8:
        return None, "fp8 and bf16 products mix, so that MFU has no single peak"
    if not name:
        return None, "the device is not known (no nvidia-smi or npu-smi, or different devices)"
    device = find_device(name)
    if device is None:
        return (
            None,
            f"no data sheet's peak is known for the device {name!r} (runner/figures/devices.py)",
        )
    if arithmetic is None:
        return None, "the cell does not say in which precision it multiplies"
    if arithmetic == "tf32" and "tf32" not in device.peak:
        arithmetic = "fp32"  # PyTorch falls back to it by itself
    if arithmetic not in device.peak:
        return None, f"{device.name} has no {arithmetic} rate ({device.source})"
    return device.peak[arithmetic], f"{device.name} {arithmetic}: {device.source}"


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
