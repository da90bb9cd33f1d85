"""A step of the reference trainer in parts: FLOPs, bytes, and the least time at given rates.

What a kernel reads and writes is what inductor (torch 2.13) schedules for a block, in bf16: it
keeps GELU's input and output, joins the gradients of q, k and v in one buffer, and takes the bias
gradient of mlp_in into GELU's backward kernel (docs/performance.md has how that was seen). A matrix
product reads and writes each operand once. Weights are fp32 masters, cast where they are used.
Nothing but the standard library is needed: a node's Python with torch reads this, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from runner.figures.devices import peak
from runner.figures.flops import Decoder, tflop_per_s_per_device

LOW, FULL = 2, 4  # bytes of bf16 and fp32
DEVICE = "NVIDIA H200"


class Part(NamedTuple):
    """A part of a step on one device: FLOPs, bytes of its memory, bytes sent over links.

    `rate` names which rate the FLOPs go by; `hidden`: it can run beside the products.
    """

    name: str
    flops: float = 0.0
    bytes: float = 0.0
    link: float = 0.0
    rate: str = "matrix"
    hidden: bool = False


@dataclass(frozen=True)
class Rates:
    """What a device reaches: TFLOP/s of products and attention, GB/s of memory and links.

    `parts` has the TFLOP/s of parts by name that were measured in their own shapes.
    """

    matrix: float = 773.0
    attention: float = 631.0
    memory: float = 4000.0
    link: float = 450.0
    parts: Mapping[str, float] = field(default_factory=dict)

    def seconds(self, part: Part) -> float:
        """Return the floor of a part."""
        whole = self.attention if part.rate == "attention" else self.matrix
        rate = self.parts.get(part.name, whole)
        work = part.flops / rate / 1e12
        return max(work, part.bytes / self.memory / 1e9, part.link / self.link / 1e9)


@dataclass(frozen=True)
class Step:
    """One pass of one micro batch and the update, on one of tensor x data parallel devices."""

    model: Decoder
    micro_batch_size: int
    tensor_parallel: int = 1
    data_parallel: int = 1
    zero_stage: int = 0

    @property
    def tokens(self) -> int:
        """Of the tensor group's micro batch."""
        return self.micro_batch_size * self.model.seq_length

    @property
    def vocabulary(self) -> int:
        """Return the padded one, a multiple of 128."""
        return -(-self.model.vocab_size // 128) * 128

    @property
    def widths(self) -> tuple[int, int, int]:
        """Return queries', and keys' and values', and the MLP's, of all heads."""
        heads, hidden = self.model.num_attention_heads, self.model.hidden_size
        head = hidden // heads
        groups = self.model.num_query_groups or heads
        return heads * head, 2 * groups * head, self.model.ffn_hidden_size or 4 * hidden

    @property
    def products(self) -> dict[str, tuple[int, int, int]]:
        """Return inputs and outputs of a layer's products and the output's, and how many."""
        (query, both, inner), hidden = self.widths, self.model.hidden_size
        t, layers = self.tensor_parallel, self.model.num_layers
        return {
            "qkv": (hidden, (query + both) // t, layers),
            "attention_out": (query // t, hidden, layers),
            "mlp_in": (hidden, inner * (2 if self.model.gated else 1) // t, layers),
            "mlp_out": (inner // t, hidden, layers),
            "output layer": (hidden, self.vocabulary // t, 1),
        }

    @property
    def parameters(self) -> tuple[float, float]:
        """Weights of products on this device's part of the tensor group, and all parameters."""
        t, hidden = self.tensor_parallel, self.model.hidden_size
        product = sum(k * n * count for k, n, count in self.products.values())
        rows = self.vocabulary // t if self.model.gated else self.model.seq_length
        small = self.model.num_layers * (2 if self.model.gated else 13) * hidden
        return product, product + rows * hidden + small

    def matrix_products(self) -> list[Part]:
        """Forward product, and those of the gradients by inputs and by weights."""
        parts = []
        for name, (k, n, count) in self.products.items():
            flops = 2 * self.tokens * k * n * count
            moved = LOW * (self.tokens * (k + n) + k * n) * count
            parts.append(Part(f"{name}: forward", flops, moved))
            parts.append(Part(f"{name}: gradients", 2 * flops, 2 * moved))
        return parts

    def attention(self) -> list[Part]:
        """Count causal attention, as fused kernels do it: five products backward, dQ in fp32."""
        query, both, _ = self.widths
        t, layers = self.tensor_parallel, self.model.num_layers
        flops = 2 * self.tokens * self.model.seq_length * query / t * layers
        rows = self.tokens * layers / t
        sums = FULL * rows * self.model.num_attention_heads  # log-sum-exp, and rows of dO * O
        forward = LOW * rows * (2 * query + both) + sums
        # delta reads O and dO; then q, k, v, dO in, dk, dv out; dQ is added up in fp32, and cast.
        backward = LOW * rows * (5 * query + 2 * both) + 2 * FULL * rows * query + 3 * sums
        return [
            Part("attention: forward", flops, forward, rate="attention"),
            Part("attention: backward", 2.5 * flops, backward, rate="attention"),
        ]

    def elementwise(self) -> list[Part]:
        """List what is between the layers' products, in passes of so many values a token."""
        (query, both, inner), hidden = self.widths, self.model.hidden_size
        gated, t = self.model.gated, self.tensor_parallel
        own = hidden / t  # sequence parallel: each rank has some of the tokens
        join = 2 * (query + both) / t
        passes = {
            "norms and residual adds: forward": 9 * own,
            "norms and residual adds: backward": 8 * own,
            **({"RoPE: forward": (2 * query + both) / t} if gated else {}),
            "q, k, v gradients joined": join,
            f"{'SwiGLU' if gated else 'GELU'}: forward": (3 if gated else 2) * inner / t,
            f"{'SwiGLU' if gated else 'GELU'}: backward": (5 if gated else 3) * inner / t,
            **({} if gated else {"bias gradients": (query + both) / t + 2 * own}),
        }
        each = LOW * self.tokens * self.model.num_layers
        return [Part(name, bytes=values * each) for name, values in passes.items()]

    def ends(self) -> list[Part]:
        """Embedding, last norm, and the loss over logits of the padded vocabulary."""
        hidden, t = self.model.hidden_size, self.tensor_parallel
        logits = LOW * self.tokens * self.vocabulary / t
        gradient = FULL * self.vocabulary / t * hidden  # set to 0, and added to the output's
        looked_up = self.tokens * hidden * (2 * FULL + 2 * LOW)
        adding = gradient * (1 if self.model.gated else 4)
        return [
            Part("token embedding", bytes=self.tokens * hidden * FULL + looked_up + adding),
            Part("last norm", bytes=LOW * self.tokens * hidden / t * 6),
            Part("cross entropy", bytes=2 * logits),  # one kernel reads them, and writes a gradient
        ]

    def update(self) -> list[Part]:
        """Casts, the norm, and AdamW, which clips gradients and writes them back."""
        product, every = self.parameters
        n = self.data_parallel if self.zero_stage == 3 else 1
        shared = every / (self.data_parallel if self.zero_stage else 1)
        return [
            Part("weights to bf16", bytes=product * (FULL + LOW) / n),
            Part("gradients to fp32", bytes=product * (FULL + LOW)),
            Part("gradient norm", bytes=every / n * FULL),
            Part("AdamW", bytes=shared * 8 * FULL),
        ]

    def collectives(self) -> list[Part]:
        """Bytes that this device sends; those of data parallelism run beside the products."""
        _, every = self.parameters
        n, t = self.data_parallel, self.tensor_parallel
        parts = []
        if t > 1:  # two gathers and two sums a layer, and the same backward
            sent = LOW * self.tokens * self.model.hidden_size * (t - 1) / t
            parts.append(Part("tensor parallel collectives", link=8 * sent * self.model.num_layers))
        if n > 1:
            gathered = {3: 2 * LOW, 2: LOW, 1: FULL}.get(self.zero_stage, FULL)
            sent = every * (n - 1) / n * (gathered + FULL)
            parts.append(Part("data parallel collectives", link=sent, hidden=True))
        return parts

    def parts(self) -> list[Part]:
        """Return all parts of the step."""
        return [
            *(*self.matrix_products(), *self.attention(), *self.elementwise(), *self.ends()),
            *(*self.update(), *self.collectives()),
        ]

    def moved(self, passes: int) -> float:
        """Return the bytes to and from a device's memory in an iteration of so many passes."""
        each = (*self.matrix_products(), *self.attention(), *self.elementwise(), *self.ends())
        return passes * sum(part.bytes for part in each) + sum(p.bytes for p in self.update())

    def floor(self, rates: Rates) -> float:
        """Seconds of a step: its parts one after the other, or what runs beside them."""
        beside = sum(rates.seconds(part) for part in self.parts() if part.hidden)
        return max(beside, sum(rates.seconds(part) for part in self.parts() if not part.hidden))

    def figures(self, rates: Rates) -> dict[str, float]:
        """Return the floor, and what it makes in the units of the tables; MFU in percent."""
        seconds = self.floor(rates)
        devices = self.tensor_parallel * self.data_parallel
        samples = self.micro_batch_size * self.data_parallel / seconds
        tflop = tflop_per_s_per_device(
            self.model, samples, devices, padded_vocab_size=self.vocabulary
        )
        return {
            "floor, ms": 1e3 * seconds,
            "samples/s": samples,
            "tokens/s per device": samples * self.model.seq_length / devices,
            "MFU, %": 100 * tflop / (peak(DEVICE, "bf16")[0] or 1),
        }
