"""A speed beside others: the same conditions, each difference said, none compared in silence."""

from dataclasses import replace

import pytest

from runner.expect.answer import Expectation, expect
from runner.expect.conditions import differences
from runner.expect.references import Speed, chosen_by, shipped
from runner.figures.flops import Decoder

OURS = Speed(
    figure=900.0,
    unit="tokens_per_s_per_device",
    device="NVIDIA H200",
    devices=8,
    model="llama3-8b",
    parameters_b=8.0,
    precision="bf16",
    micro_batch_size=2,
    global_batch_size=64,
    tokens_per_sample=8192,
    trainer="torch_gpt",
    recomputation="full",
    model_parallel="none",
)
THEIRS = replace(
    OURS,
    figure=1000.0,
    device="H200 SXM",
    model="Llama 3 8B",
    trainer="torchtitan",
    version="0.2.2",
    where="Table 1",
    address="https://example.org/a",
)


def found(subject: Speed, *references: Speed) -> Expectation:
    expectation = expect(subject, references)
    assert expectation is not None
    return expectation


def test_the_same_conditions_give_a_percentage_of_the_median_and_whose_it_is() -> None:
    others = [replace(THEIRS, figure=figure, where=str(figure)) for figure in (800.0, 1000.0, 1100)]
    expectation = found(OURS, *others, replace(THEIRS, figure=5.0, devices=64))
    assert not expectation.differences
    assert expectation.percent == pytest.approx(90)
    assert expectation.words == (
        "90 % of the median of 3: 1,000 tokens/s per device, 800 to 1,100 (torchtitan 0.2.2;"
        " Llama 3 8B; 8 x H200 SXM), within their range"
    )


def test_figures_that_are_printed_alike_have_no_range() -> None:
    others = [replace(THEIRS, figure=figure, trainer="x", version="") for figure in (207.1, 206.8)]
    assert found(replace(OURS, figure=103.5), *others).words == (
        "50 % of the median of 2: 207 tokens/s per device (x; Llama 3 8B; 8 x H200 SXM)"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"device": "NVIDIA H100 80GB HBM3"}, "; it runs on H200 SXM (here H100 SXM)"),
        ({"precision": "fp16"}, "; it computes in bf16 (here fp16)"),
        ({"precision": ""}, "; it computes in bf16 (here not known)"),
        ({"parameters_b": 70.0, "model": "llama3-70b"}, "; it trains Llama 3 8B (here llama3-70b)"),
        ({"parameters_b": None, "model": ""}, "; it trains Llama 3 8B (here not known)"),
        ({"active_parameters_b": 1.0}, "; it trains Llama 3 8B (here llama3-8b)"),
    ],
)
def test_another_device_model_or_precision_is_said_and_never_a_percentage(
    change: dict[str, object], words: str
) -> None:
    expectation = found(replace(OURS, **change), THEIRS)  # type: ignore[arg-type]
    assert expectation.percent is None
    assert expectation.words.startswith("not compared: ")
    assert words in expectation.words
    assert "%" not in expectation.words


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"global_batch_size": 128},
            "it has a global batch of 64 (here 128) and accumulates 4 micro batches (here 8)",
        ),
        ({"global_batch_size": None}, "not known here: global batch"),
        (
            {"micro_batch_size": 8},
            "it has a micro batch of 2 (here 8) and accumulates 4 micro batches (here 1)",
        ),
        ({"devices": 16, "micro_batch_size": None}, "it uses 8 devices (here 16); not known here:"),
        ({"tokens_per_sample": 1024}, "it has a sequence length of 8,192 (here 1,024)"),
        ({"device": "H200 NVL"}, "it runs on H200 SXM (here H200 NVL)"),
        ({"recomputation": "none"}, "it recomputes all layers (here none)"),
        (
            {"recomputation": "", "model_parallel": ""},
            "it recomputes all layers (here not known)",
        ),
        (
            {"model_parallel": "TP 2, EP 4"},
            "it accumulates 4 micro batches (here 8) and does not split the model (here TP 2, EP",
        ),
    ],
)
def test_each_other_setting_is_said_beside_the_percentage_in_one_sentence(
    change: dict[str, object], words: str
) -> None:
    expectation = found(replace(OURS, **change), THEIRS)  # type: ignore[arg-type]
    assert expectation.differences
    assert words in expectation.words
    if "device" not in change:
        assert expectation.words.startswith("90 % of the nearest, 1,000 tokens/s per device")


def test_several_nearest_figures_differ_each_in_the_same() -> None:
    others = [replace(THEIRS, figure=figure, recomputation="none") for figure in (900.0, 1000.0)]
    assert found(OURS, *others).difference_words == ("each of them recomputes nothing (here full)")


def test_a_model_of_nearly_the_same_size_and_another_name_is_a_difference() -> None:
    mixed = replace(THEIRS, model="GPT 117M", parameters_b=0.117)
    near = expect(replace(OURS, model="", parameters_b=0.125), [mixed])
    assert near is not None
    assert near.percent is not None
    assert "; it trains GPT 117M (here 125M)" in near.words
    medium = replace(THEIRS, model="GPT-2 345M", parameters_b=0.345)
    assert not found(replace(OURS, model="gpt2-medium", parameters_b=0.355), medium).differences
    assert not found(
        replace(OURS, parameters_b=7.5), THEIRS
    ).differences  # its input embedding not counted
    assert not found(
        replace(OURS, parameters_b=7.5), replace(THEIRS, model="Llama 3.1 8B")
    ).differences


def test_a_small_percentage_is_not_zero() -> None:
    slow = found(replace(OURS, figure=4.8), THEIRS)
    assert slow.words.startswith("0.48 % of 1,000")


def test_what_a_source_does_not_state_is_said() -> None:
    expectation = found(OURS, replace(THEIRS, global_batch_size=None))
    assert expectation.difference_words == "not stated there: global batch"
    # A micro batch alone may be unknown: everything that decides the work is the same.
    assert not found(OURS, replace(THEIRS, micro_batch_size=None)).differences


def test_memory_of_a_device_and_a_variant_that_is_not_stated_are_said() -> None:
    ours = replace(OURS, device="NVIDIA A100-SXM4-80GB")
    theirs = replace(THEIRS, device="A100", device_detail="40 GB")
    assert found(ours, theirs).difference_words == "it has devices of 40 GB (here 80 GB)"
    variant = found(replace(OURS, device="H100"), replace(THEIRS, device="H100 SXM"))
    assert variant.percent is not None
    assert variant.difference_words == "it runs on H100 SXM (here H100)"


def test_the_nearest_is_of_the_same_device_before_the_same_batch() -> None:
    far = replace(THEIRS, device="B200")
    near = replace(THEIRS, devices=64, global_batch_size=512, figure=950.0)
    assert found(OURS, far, near).references == (near,)
    assert expect(OURS, []) is None


def test_globs_choose_sources_by_trainer_and_address() -> None:
    titan = {one.trainer for one in chosen_by(["torchtitan"], shipped())}
    assert titan == {"torchtitan"}
    others = chosen_by(["!docs/*", "!*NVIDIA*"], shipped())
    assert others
    assert not [one for one in others if one.address.startswith("docs/") or "NVIDIA" in one.address]


def test_a_models_size_is_counted_as_its_name_has_it() -> None:
    llama = Decoder(32, 4096, 32, 8192, 128256, 14336, num_query_groups=8, gated=True)
    total, active = llama.parameters
    assert total == active
    assert total / 1e9 == pytest.approx(8, rel=0.07)  # its output layer is not shared
    gpt2 = Decoder(12, 768, 12, 1024, 50257)
    assert gpt2.parameters[0] / 1e6 == pytest.approx(124, rel=0.01)
    experts = Decoder(48, 2048, 32, 4096, 151936, 6144, 4, 128, True, 48, 128, 8, 768)
    total, active = (count / 1e9 for count in experts.parameters)
    assert total == pytest.approx(30, rel=0.1)
    assert active == pytest.approx(3, rel=0.1)


def test_each_of_our_own_published_figures_is_compared_without_itself() -> None:
    """The figures of docs/results as a reader of those pages would ask for them."""
    ours = [one for one in shipped() if one.address.startswith("docs/results/")]
    said = []
    for one in ours[:: len(ours) // 20][:20]:
        expectation = found(one, *(other for other in shipped() if other is not one))
        assert expectation.percent or list(differences(one, expectation.references[0]))
        said.append(expectation.words)
    assert len(said) == 20
