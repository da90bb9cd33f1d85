"""Device peaks by the names that nvidia-smi prints, and MFU by hand."""

from dataclasses import dataclass, replace

import pytest

from runner.figures.devices import DEVICES, find_device, peak
from runner.figures.flops import MODEL_FLOPS, Decoder
from runner.tables.campaign_table import to_table
from runner.tables.columns import COLUMNS
from runner.tables.formatting import MISSING
from runner.tables.row import Row
from runner.terms.architecture import Divided, Formula
from tests.runner.documents import rows
from tests.runner.tables.test_tables import cell

NAMES = {
    "Tesla V100-SXM2-16GB": ("V100 SXM2", 125),
    "Tesla V100-SXM2-32GB": ("V100 SXM2", 125),
    "Tesla V100-PCIE-32GB": ("V100 PCIe", 112),
    "Tesla V100S-PCIE-32GB": ("V100S PCIe", 130),
    "Tesla T4": ("T4", 65),
    "A100-SXM4-40GB": ("A100", 312),
    "NVIDIA A100-SXM4-80GB": ("A100", 312),
    "NVIDIA A100 80GB PCIe": ("A100", 312),
    "A100-PCIE-40GB": ("A100", 312),
    "NVIDIA A800-SXM4-80GB": ("A100", 312),
    "NVIDIA H100 80GB HBM3": ("H100 SXM", 989.5),
    "NVIDIA H800": (None, None),
    "NVIDIA H100 PCIe": ("H100 PCIe", 756.5),
    "NVIDIA H100 NVL": ("H100 NVL", 835.5),
    "NVIDIA H200": ("H200 SXM", 989.5),
    "NVIDIA H200 NVL": ("H200 NVL", 835.5),
    "NVIDIA B200": ("B200", 2250),
    "NVIDIA GB200": ("GB200", 2500),
    "NVIDIA B300 SXM6 AC": ("B300", 2250),
    "NVIDIA GB300": ("GB300", 2500),
    "NVIDIA H20": ("H20", 148),
    "NVIDIA H20-3e": ("H20", 148),
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": ("RTX PRO 6000", 503.8),
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": ("RTX PRO 6000 Server", 500),
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": (None, None),
    "AMD Instinct MI350X": ("MI350X", 2306.9),
    "AMD Instinct MI355X": ("MI355X", 2516.6),
    "AMD Instinct MI300X": ("MI300X", 1307.4),
    "AMD Instinct MI325X": ("MI325X", 1307.4),
    "AMD Instinct MI250X": ("MI250X", 191.5),
    "NVIDIA L4": ("L4", 121),
    "NVIDIA L40S": ("L40S", 362),
    "NVIDIA L40": (None, None),
    "NVIDIA GeForce RTX 4090": ("RTX 4090", 165.2),
    "NVIDIA GeForce RTX 4090 Laptop GPU": (None, None),
    "910A": ("Ascend 910A", 256),
    "910B2C": (None, None),
    "NVIDIA A100-SXM4-40GB MIG 1g.5gb": (None, None),
    "": (None, None),
}


@pytest.mark.parametrize("name", NAMES)
def test_devices_by_the_name_their_tool_prints(name: str) -> None:
    expected, rate = NAMES[name]
    found = find_device(name)
    assert (found.name if found else None) == expected
    assert peak(name, "fp16")[0] == rate


def test_a_name_is_one_device_only_and_each_has_its_source() -> None:
    assert len({device.pattern for device in DEVICES}) == len(DEVICES)
    for device in DEVICES:
        assert device.source
        half = [rate for name, rate in device.peak.items() if name != "fp8"]
        assert max(half) == device.peak["fp16"]
        assert 1.9 < device.peak.get("fp8", 2 * device.peak["fp16"]) / device.peak["fp16"] < 2.1


def test_what_cannot_be_told_has_no_peak_and_a_reason() -> None:
    assert "no data sheet's peak is known for the device 'Foo 9'" in peak("Foo 9", "bf16")[1]
    assert "V100 SXM2 has no bf16" in peak("Tesla V100-SXM2-16GB", "bf16")[1]
    assert "does not say in which precision" in peak("NVIDIA H200", None)[1]
    assert peak("Tesla V100-SXM2-16GB", "tf32")[0] == 15.7


def test_mfu_and_hfu_of_a_published_run() -> None:
    # Korthikanti et al. 2022, arXiv:2205.05198, table 5: 530B on 280 A100, 37.83 s: MFU 56.0 %.
    run = replace(
        cell("530B", 280 / 37.83),
        nodes=35,
        model=Decoder(105, 20480, 128, 2048, 51200),
        device="NVIDIA A100-SXM4-80GB",
        arithmetic="fp16",
        activation_checkpointing=True,
    )
    (row,) = rows([run])
    assert row["figures"]["mfu_percent"] == pytest.approx(56.0, abs=0.1)
    assert row["figures"]["hfu_percent"] == pytest.approx(56.0 * 4 / 3, abs=0.5)
    assert row["figures"]["tokens_per_s_per_device"] == pytest.approx(2048 / 37.83)
    assert "A100 fp16" in row["figures"]["peak_source"]
    assert "above_peak" not in row["verdict_reasons"]


def test_of_long_samples_mfu_is_said_in_full_and_causal() -> None:
    """Llama 3 8B, 57.9 against 51.5 GFLOP a token at 8K, 251 against 148 at 128K."""

    def row(length: int) -> Row:
        model = Decoder(32, 4096, 32, length, 128256, 14336, 8, gated=True)
        run = replace(cell("a", 1.0), model=model, device="NVIDIA H200", arithmetic="bf16")
        return rows([run])[0]

    for length, share in ((8192, 51.47 / 57.91), (131072, 148.1 / 251.2)):
        both = [row(length)["figures"][f"{name}mfu_percent"] for name in ("", "causal_")]
        assert both[1] == pytest.approx(both[0] * share, rel=1e-3)
    shown = COLUMNS["causal_mfu_percent"]
    assert shown.text(row(8192)) == MISSING
    assert shown.text(row(131072)) != MISSING
    none = rows([replace(cell("a", 10.0), device="NVIDIA H200", arithmetic="bf16", model=None)])[0]
    assert none["figures"]["causal_mfu_percent"] is None
    assert none["missing"]["causal_mfu_percent"]


def test_more_than_a_device_can_do_is_not_believed() -> None:
    run = replace(cell("a", 1e6), device="NVIDIA H200", arithmetic="bf16")
    (row,) = rows([run])
    assert row["figures"]["mfu_percent"] is not None
    assert (
        row["verdict_reasons"]["above_peak"]
        == f"MFU would be {row['figures']['mfu_percent']:.0f} %"
    )


def test_no_device_no_mfu_with_the_reason() -> None:
    (row,) = rows([replace(cell("a", 10.0), device="Foo")])
    assert row["figures"]["mfu_percent"] is None
    assert "'Foo'" in row["missing"]["mfu_percent"]


def test_a_system_without_an_architecture_has_no_mfu_and_says_so() -> None:
    (row,) = rows([replace(cell("a", 10.0), device="NVIDIA H200", arithmetic="bf16", model=None)])
    names = ("tokens_per_s", "model_tflop_per_s_per_device", "mfu_percent", "hfu_percent")
    assert [row["figures"][name] for name in names] == [None] * 4
    architecture = "the system does not say the architecture of its model"
    assert {name: row["missing"][name] for name in names} == {
        **dict.fromkeys(names, architecture),
        "tokens_per_s": "nothing says the tokens of a sample",
    }
    assert "0.0000" not in to_table([row], 400, wide=True, all_notes=True)
    assert row["formula"] is None


FLAT = Formula("flat", "6*N*s", "six a weight and token", "a test")


@dataclass(frozen=True)
class Flat:
    """An architecture of its own: no heads, its own formula."""

    seq_length: int
    vocab_size: int
    formula: Formula = FLAT

    def flops(self, *, recompute: bool = False, vocab_size: int | None = None) -> float:
        return 6.0e9 * self.seq_length * (4 / 3 if recompute else 1)

    def divided(self) -> tuple[Divided, ...]:
        return (Divided("expert_parallel", "num_experts", 8),)


def test_an_architecture_brings_its_own_formula() -> None:
    ours = replace(cell("a", 10.0), device="NVIDIA H200", arithmetic="bf16", model=Flat(1024, 7))
    gpt = replace(cell("b", 10.0), device="NVIDIA H200", arithmetic="bf16")
    table = rows([ours, gpt])
    assert table[0]["figures"]["mfu_percent"] == pytest.approx(
        6e9 * 1024 * 10 / 8 / 1e12 / 989.5 * 100
    )
    assert [row["formula"] and row["formula"]["id"] for row in table] == ["flat", MODEL_FLOPS.id]
    assert "TFLOP/s per device: flat = 6*N*s" in to_table(table, 400, wide=True, all_notes=True)


def test_under_fp8_the_peak_is_fp8s_or_there_is_none() -> None:
    assert peak("NVIDIA H100 80GB HBM3", "fp8")[0] == 1979
    assert peak("NVIDIA H100 80GB HBM3", "bf16")[0] == 989.5
    rate, why = peak("NVIDIA A100-SXM4-80GB", "fp8")
    assert rate is None
    assert "A100 has no fp8 rate" in why
