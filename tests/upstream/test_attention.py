"""Attention by sdpa-attention.patch gives what Megatron's own, step by step, gives: on a CPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runner.systems.common.pins import pins
from tests.upstream.mirrors import unpacked

# Stood in for, as there is no GPU: where a buffer lies, the generator of dropout (which is off),
# and kernels in Triton. A tensor group of 2 has half of the heads and asks nobody for anything.
ATTEND = """
import contextlib, inspect, json, sys
from types import SimpleNamespace
from unittest.mock import MagicMock
sys.modules["megatron.core.transformer.moe.paged_stash"] = MagicMock()
import torch
from megatron.core import parallel_state
from megatron.core.transformer import dot_product_attention as module
from megatron.core.transformer.enums import AttnBackend, AttnMaskType
from megatron.core.transformer.transformer_config import TransformerConfig
from megatron.core.utils import GlobalMemoryBuffer

torch.cuda.current_device = lambda: "cpu"
parallel_state._GLOBAL_MEMORY_BUFFER = GlobalMemoryBuffer()
tracker = SimpleNamespace(fork=contextlib.nullcontext)
module.tensor_parallel.get_cuda_rng_tracker = lambda: tracker
takes = inspect.signature(module.DotProductAttention.__init__).parameters
groups_of = "pg_collection" if "pg_collection" in takes else "model_comm_pgs"
LENGTH, BATCH, SIZE = 24, 3, 16


def core(backend, heads, groups, tensor, more):
    config = TransformerConfig(
        num_layers=2, hidden_size=SIZE * heads, num_attention_heads=heads, num_query_groups=groups,
        tensor_model_parallel_size=tensor, attention_dropout=0.0, masked_softmax_fusion=False,
        attention_backend=AttnBackend[backend], **more)
    group = SimpleNamespace(tp=SimpleNamespace(size=lambda: tensor))
    return module.DotProductAttention(
        config, 2, AttnMaskType.causal, "self", **{groups_of: group})


def results(backend, mask, *case):
    torch.manual_seed(1)
    heads, groups, tensor, _ = case
    inputs = [
        torch.randn(LENGTH, BATCH, count // tensor, SIZE, requires_grad=True)
        for count in (heads, groups, groups)
    ]
    out = core(backend, *case)(*inputs, mask)
    out.backward(torch.randn(out.shape))
    return [out.detach(), *(each.grad for each in inputs)]


causal = torch.ones(LENGTH, LENGTH).triu(1).bool()
answers = []
for case in json.load(sys.stdin):
    pairs = zip(results("unfused", causal, *case), results("sdpa", None, *case), strict=True)
    answers.append(max(float((a - b).abs().max()) if a.shape == b.shape else 9.0 for a, b in pairs))
try:
    results("sdpa", causal, 4, 4, 1, {})
except AssertionError as error:
    answers.append(str(error))
print("\\n" + json.dumps(answers))
"""
CASES = [
    (4, 4, 1, {}),
    (8, 2, 1, {}),
    (8, 4, 2, {}),
    (4, 4, 1, {"apply_query_key_layer_scaling": True, "attention_softmax_in_fp32": True}),
]


@pytest.mark.parametrize("pin", pins("megatron_core"))
def test_sdpa_gives_the_unfused_outputs_and_gradients(pin: str, tmp_path: Path) -> None:
    """With grouped queries, a tensor group, scaling by layer; a mask is refused, not ignored."""
    pytest.importorskip("torch", reason="`make setup` brings torch")
    unpacked("megatron_core", pin, "megatron", tmp_path)
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ATTEND],
        cwd=tmp_path,  # from its folder, so that Megatron is found before any that is installed
        input=json.dumps(CASES),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    *differences, refusal = json.loads(ran.stdout.splitlines()[-1])
    assert max(differences) < 1e-5
    assert len(differences) == len(CASES)
    assert "pass --no-create-attention-mask-in-dataloader" in refusal
