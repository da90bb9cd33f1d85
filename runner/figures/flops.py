"""Floating-point operations: a GPT's, by Megatron's formula, and TFLOP/s a device of any model.

*Model* FLOPs are the multiply-adds of one forward and one backward pass: what the training needs,
whatever the implementation does. *Hardware* FLOPs add what is computed again because activations
were not kept. Model FLOPs are what systems and settings can be compared by; the tables show them
under the id `megatron-model-flops`.

Sources: Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters
Using Megatron-LM", arXiv:2104.04473, equation 3 (full recomputation, factor 96); Korthikanti et
al. 2022, "Reducing Activation Recomputation in Large Transformer Models", arXiv:2205.05198,
appendix A (model FLOPs, factor 72). The two differ by the second forward pass of the transformer
layers (24 of 96); the logits layer is never recomputed and counts 6*B*s*h*V in both, which is why
its denominator is 16lh in one and 12lh in the other.
"""

from dataclasses import dataclass

from runner.terms.architecture import Architecture, Divided, Formula
from runner.terms.record import Measurement

MODEL_FLOPS = Formula(
    id="megatron-model-flops",
    expression="72*B*s*l*h^2*(1 + s/(6h) + V/(12lh))",
    meaning="forward and backward pass, no recomputation counted",
    source="Narayanan et al. 2021, arXiv:2104.04473, eq. 3 without the recomputed forward pass",
)
HARDWARE_FLOPS = Formula(
    id="megatron-hardware-flops",
    expression="96*B*s*l*h^2*(1 + s/(6h) + V/(16lh))",
    meaning="with the forward pass of every layer computed again (full recomputation)",
    source="Narayanan et al. 2021, arXiv:2104.04473, eq. 3",
)


@dataclass(frozen=True)
class Gpt:
    """A GPT-2: all counts, no units."""

    num_layers: int
    hidden_size: int
    num_attention_heads: int
    seq_length: int
    vocab_size: int

    @property
    def formula(self) -> Formula:
        """Megatron's, for model FLOPs."""
        return MODEL_FLOPS

    def flops(self, *, recompute: bool = False, vocab_size: int | None = None) -> float:
        """Return the FLOPs of one sample: of the model (72), or with full recomputation (96).

        `vocab_size` is the padded one where it is known: the padded rows are multiplied, too.
        """
        s, layers, h = self.seq_length, self.num_layers, self.hidden_size
        factor = 96 if recompute else 72
        # h^2 * (1 + s/(6h)) multiplied out, so that no size is divided by.
        transformer = factor * s * layers * h * (h + s / 6)
        return transformer + 6 * s * h * (vocab_size or self.vocab_size)

    def divided(self) -> tuple[Divided, ...]:
        """Keep the heads whole."""
        return (Divided("tensor_parallel", "num_attention_heads", self.num_attention_heads),)


def tflop_per_s_per_device(
    model: Architecture,
    samples_per_s: float,
    devices: int,
    *,
    recompute: bool = False,
    padded_vocab_size: int | None = None,
) -> float:
    """Return TFLOP/s (1e12) of one device when the whole job trains `samples_per_s` sequences a
    second.

    Raises ValueError when `devices` is not positive.
    """
    if devices <= 0:
        raise ValueError(f"devices must be positive, not {devices}")
    flops = model.flops(recompute=recompute, vocab_size=padded_vocab_size)
    return flops * samples_per_s / devices / 1e12


def vocabulary(model: Architecture, measurement: Measurement) -> tuple[int, str]:
    """Return the vocabulary size that the formula uses, and "padded" or "unpadded"."""
    if measurement.padded_vocab_size:
        return measurement.padded_vocab_size, "padded"
    return model.vocab_size, "unpadded"
