"""The loss of evaluations, as each trainer prints it: (iterations before it, loss)."""

from pathlib import Path

import pytest

from runner.commands.parse import parse
from runner.logs.kinds import readers_of_family
from runner.logs.measure import measure
from tests.runner.logs.made_lines import megatron, torchtitan

# Family, the lines of a log, and what was evaluated.
LOGS = {
    "megatron": (  # bigscience 0035f06a megatron/training.py:932, Megatron-LM d98e8a64 :5369
        [
            megatron(10),
            " validation loss at iteration 10 | lm loss value: 9.5E+00 | lm loss PPL: 1.3E+04 | ",
            megatron(20),
            " validation loss at iteration 20 on 160-sample draw from validation set | lm loss value:"
            " 9.25E+00 | lm loss PPL: 1.0E+04 | ",
            " validation loss at iteration 20 on test set | lm loss value: 8.0E+00 | lm loss PPL:"
            " 1.0E+03 | ",
        ],
        ((10, 9.5), (20, 9.25)),
    ),
    "nanogpt": (  # 3adf61e train.py:265
        [
            "step 0: train loss 4.2874, val loss 4.2823",
            "iter 0: loss 4.2654, time 31137.05ms, mfu -100.00%",
            "step 250: train loss 1.9655, val loss 2.0630",
            "iter 250: loss 1.9, time 3000.05ms, mfu 5.00%",
        ],
        ((0, 4.2823), (250, 2.063)),
    ),
    "torchtitan": (  # b5bcd76c torchtitan/components/metrics.py:570
        [
            torchtitan(10),
            "[titan] validate step: 10  \x1b[32mloss:  8.1234  \x1b[36mmemory: 84.26GiB(60.27%)  tps: 3",
            "[rank3]:[titan] validate step: 10  loss: -1.0000  memory: 84.26GiB(60.27%)  tps: 3",
        ],
        ((10, 8.1234),),
    ),
    "modded_nanogpt": (  # f411b3d train_gpt.py:2342
        [
            "step:0/1390 val_loss:10.8258 train_time:0ms step_avg:nanms",
            "step:1/1390 train_time:100ms step_avg:100.00ms",
            "step:1390/1390 val_loss:3.2784 train_time:137000ms step_avg:98.56ms",
        ],
        ((0, 10.8258), (1390, 3.2784)),
    ),
    "llm_c": (  # f1e2ace train_gpt2.cu:1771
        [
            "val loss 10.985",
            "step    1/2 | loss 11.0 (+nanz)| norm 1.4 (+nanz)| lr 3.00e-04 | 44.57 ms | 91886 tok/s",
            "step    2/2 | loss 10.0 (+nanz)| norm 1.4 (+nanz)| lr 3.00e-04 | 44.57 ms | 91886 tok/s",
            "val loss 9.5",
        ],
        ((0, 10.985), (2, 9.5)),
    ),
    "nanochat": (  # 92d63d4 scripts/base_train.py:427; it trains none of its last step
        [
            "Step 00000 | Validation bpb: 3.213000",
            "step 00000/00002 (0.00%) | loss: 6.9 | lrm: 0.05 | dt: 1.00ms | tok/sec: 5 | mfu: 0.00 |",
            "step 00001/00002 (50.00%) | loss: 6.8 | lrm: 0.05 | dt: 1.00ms | tok/sec: 5 | mfu: 0.00 |",
            "Step 00002 | Validation bpb: 1.250000",
        ],
        ((0, 3.213), (2, 1.25)),
    ),
    "hf_trainer": (
        [
            "{'loss': 6.153, 'learning_rate': 5e-05, 'epoch': 0.4}",
            " 40%|####      | 16/40 [00:00<00:02, 13.91it/s]",
            "{'eval_loss': 5.875, 'eval_runtime': 1.2, 'eval_steps_per_second': 3.1, 'epoch': 0.4}",
            "100%|##########| 4/4 [00:00<00:00, 13.91it/s]",
            " 40%|####      | 16/40 [00:01<00:02, 13.91it/s]",
        ],
        ((16, 5.875),),
    ),
    "torch_gpt": (
        [
            "torch_gpt step=5/5 samples_per_s=1.0 step_time_ms=1.0 memory_used_mib=1.0",
            "torch_gpt eval samples=16 loss=7.01234",
        ],
        ((5, 7.01234),),
    ),
}


@pytest.mark.parametrize("family", LOGS)
def test_each_family_has_its_evaluations(family: str, tmp_path: Path) -> None:
    lines, expected = LOGS[family]
    text = "\n".join((*lines, "")).encode()
    assert measure(readers_of_family(family), {0: [text]}).validation == expected
    log = tmp_path / "log"
    log.write_bytes(text)
    assert parse([log], None)["last_validation_loss"] == expected[-1][1]


def test_of_several_nodes_an_evaluation_counts_once() -> None:
    lines, expected = LOGS["megatron"]
    text = "\n".join((*lines, "")).encode()
    logs = {0: [text], 1: [text]}
    assert measure(readers_of_family("megatron"), logs).validation == expected


def test_main_log_of_llm_c() -> None:
    """f1e2ace llmc/logger.h:41."""
    text = b"s:0 tel:10.98\ns:1 trl:10.9598 lr:0.000002 norm:15.24\ns:2 tel:9.5000\n"
    assert measure(readers_of_family("llm_c"), {0: [text]}).validation == ((0, 10.98), (2, 9.5))
