"""Floating-point operations: a decoder's, by one formula, and TFLOP/s a device of any model.

*Model* FLOPs are the multiply-adds of one forward and one backward pass: what the training needs,
whatever the implementation does. *Hardware* FLOPs add what is computed again because activations
were not kept. Model FLOPs are what systems and settings can be compared by; the tables show them
under the id `model-flops`.

The formula is 6 x the weights that one token is multiplied with (without the embedding's lookup,
with the output layer; of experts, those that it is routed to), plus attention in full: Chowdhery
et al. 2022, "PaLM", arXiv:2204.02311, appendix B; torchtitan b5bcd76, torchtitan/models/utils.py,
get_dense_model_nparams_and_flops. For a GPT-2 it is 72*B*s*l*h^2*(1 + s/(6h) + V/(12lh)), which is
Megatron-LM's until core_v0.11 (megatron/training/training.py:118, num_floating_point_operations)
and Narayanan et al. 2021, arXiv:2104.04473, eq. 3 without the second forward pass; with it, the
factor is 96. Since core_v0.12 Megatron-LM, and Megatron-Bridge (067f987,
src/megatron/bridge/training/utils/flop_utils.py, transformer_flops), count half of the attention,
for the causal mask: `causal` gives their figure.
"""

from dataclasses import dataclass

from runner.terms.architecture import Architecture, Divided, Formula
from runner.terms.record import Measurement

MODEL_FLOPS = Formula(
    id="model-flops",
    expression="6*B*s*(N + 2*l*a*d*s)",
    meaning=(
        "forward and backward pass, no recomputation counted; N weights that a token is multiplied"
        " with (no embedding; of experts the active ones), attention in full"
    ),
    source="Chowdhery et al. 2022, arXiv:2204.02311, appendix B",
)


@dataclass(frozen=True)
class Decoder:
    """A decoder-only transformer: GPT-2 and 3, Llama, mixtures of experts. All counts, no units.

    `ffn_hidden_size` None is 4 x hidden_size; `gated`: the MLP has a third matrix (SwiGLU).
    `num_query_groups` None is a key and value for each head; `kv_channels` is the size of a head,
    None hidden_size / heads. In `moe_layers` layers an MLP is `num_experts` experts of
    `moe_ffn_hidden_size`, of which a token goes through `moe_router_topk`, and a shared one.
    Names are Megatron-LM's.
    """

    num_layers: int
    hidden_size: int
    num_attention_heads: int
    seq_length: int
    vocab_size: int
    ffn_hidden_size: int | None = None
    num_query_groups: int | None = None
    kv_channels: int | None = None
    gated: bool = False
    moe_layers: int = 0
    num_experts: int = 0
    moe_router_topk: int = 0
    moe_ffn_hidden_size: int = 0
    moe_shared_expert_intermediate_size: int = 0

    @property
    def formula(self) -> Formula:
        """The one of model FLOPs."""
        return MODEL_FLOPS

    @property
    def _head_size(self) -> float:
        return self.kv_channels or self.hidden_size / self.num_attention_heads

    @property
    def key_value_size(self) -> float:
        """Numbers of a token's keys and values in one layer."""
        return 2 * self._head_size * (self.num_query_groups or self.num_attention_heads)

    @property
    def attention_weights(self) -> float:
        """Weights of a layer's attention."""
        groups = self.num_query_groups or self.num_attention_heads
        return 2 * self.hidden_size * self._head_size * (self.num_attention_heads + groups)

    @property
    def layer_weights(self) -> float:
        """Weights of all layers that one token is multiplied with, biases and norms left out."""
        h, attention = self.hidden_size, self.attention_weights
        matrices = 3 if self.gated else 2
        dense = matrices * h * (self.ffn_hidden_size or 4 * h)
        width = self.moe_router_topk * self.moe_ffn_hidden_size
        routed = matrices * h * (width + self.moe_shared_expert_intermediate_size)
        experts = routed + h * self.num_experts
        layers = self.num_layers
        return layers * attention + (layers - self.moe_layers) * dense + self.moe_layers * experts

    @property
    def parameters(self) -> tuple[float, float]:
        """All weights, and those that a token is multiplied with: no biases, norms and positions,
        and one matrix for embedding and output layer, which some models do not share.
        """
        active = self.layer_weights + self.hidden_size * self.vocab_size
        matrices = 3 if self.gated else 2
        expert = matrices * self.hidden_size * self.moe_ffn_hidden_size
        return active + self.moe_layers * (self.num_experts - self.moe_router_topk) * expert, active

    def flops(
        self, *, recompute: bool = False, vocab_size: int | None = None, causal: bool = False
    ) -> float:
        """Return the FLOPs of one sample: of the model, or with full recomputation of its layers.

        `vocab_size` is the padded one where it is known: the padded rows are multiplied, too.
        `causal` counts half of the attention.
        """
        s, width = self.seq_length, self.num_attention_heads * self._head_size
        attention = 2 * self.num_layers * width * s / (2 if causal else 1)
        layers = (8 if recompute else 6) * s * (self.layer_weights + attention)
        return layers + 6 * s * self.hidden_size * (vocab_size or self.vocab_size)

    def divided(self) -> tuple[Divided, ...]:
        """Keep the heads whole, and the groups that share keys and values."""
        groups = self.num_query_groups
        heads = Divided("tensor_parallel", "num_attention_heads", self.num_attention_heads)
        return (
            heads,
            *([Divided("tensor_parallel", "num_query_groups", groups)] if groups else []),
        )


GIVEN_FLOPS = Formula(
    id="given-flops",
    expression="B*s*F",
    meaning="F FLOPs of a token, forward and backward pass, as the matrix gives them",
    source="model_flops_per_token of the matrix",
)


@dataclass(frozen=True)
class PerToken:
    """A model of which the FLOPs of a token are known, and nothing else."""

    flops_per_token: float
    seq_length: int
    vocab_size: int = 0

    @property
    def formula(self) -> Formula:
        """The one that counts what was given."""
        return GIVEN_FLOPS

    def flops(self, *, recompute: bool = False, vocab_size: int | None = None) -> float:
        """Return the FLOPs of one sample; with recomputation a third more, a forward pass."""
        return self.flops_per_token * self.seq_length * (4 / 3 if recompute else 1)

    def divided(self) -> tuple[Divided, ...]:
        """Name nothing: its parts are not known."""
        return ()


@dataclass(frozen=True)
class LatentDecoder(Decoder):
    """A decoder with multi-head latent attention, as DeepSeek-V2 and V3 (arXiv:2412.19437, 2.1.1).

    Names are those of its config.json; `q_lora_rank` 0: queries have no latent of their own.
    """

    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    qk_nope_head_dim: int = 0
    qk_rope_head_dim: int = 0
    v_head_dim: int = 0

    @property
    def _query_size(self) -> int:
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def _head_size(self) -> float:
        """Return the mean of what scores and values multiply."""
        return (self._query_size + self.v_head_dim) / 2

    @property
    def attention_weights(self) -> float:
        """Weights of a layer's attention: queries, keys and values by their latents, output."""
        h, heads, rank = self.hidden_size, self.num_attention_heads, self.q_lora_rank
        wide = heads * self._query_size
        queries = rank * (h + wide) if rank else h * wide
        up = heads * (self.qk_nope_head_dim + self.v_head_dim)
        values = h * (self.kv_lora_rank + self.qk_rope_head_dim) + self.kv_lora_rank * up
        return queries + values + heads * self.v_head_dim * h


def causal_share(model: Architecture, vocab_size: int) -> float | None:
    """Return model FLOPs with half of the attention, over those with all of it; None: not known.

    Causal kernels leave the other half out, which of long sequences is much.
    """
    if not isinstance(model, Decoder):
        return None
    size = vocab_size or None
    return model.flops(vocab_size=size, causal=True) / model.flops(vocab_size=size)


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
