"""Whatever happens to a log, no parser raises, and none invents a step."""

# a log's line is as long as it is

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.logs.decoding import unprefixed, whole_lines
from runner.logs.kinds import KINDS
from runner.logs.recognise import signs
from runner.results.diagnosis.verdict import diagnose
from runner.terms.record import Place
from tests.budget import examples
from tests.runner.logs import made_lines as lines

DATA = Path(__file__).resolve().parents[2] / "data"
TABLE = [
    "| step     | micro_batches   | samples         | throughput | latency    | loss       |",
    "| 10       | 320             | 5120            | 35.88042   | 14.26962   | 11.23708   |",
    "step=20,micro_batches=320,samples=5120,throughput=35.88042,latency=14.26962,loss=11.23708,",
]
MIXED = [
    " log_interval .................................... 10",
    *(lines.megatron(step, rate=1.5, scale=65536) for step in (10, 20, 30)),
    lines.overflow(),
    lines.megatron(40, loss=None, skipped=2),
    lines.megatron(50, loss=None),
    lines.megatron(60, loss=float("nan")),
    *(lines.v115(step) for step in (1, 2)),
    *(lines.megatron(step, seconds=1.25) for step in (3, 4)),
    *(lines.libai(step, time=1.0, rate=4.0) for step in (99, 199)),
    *(lines.libai_2022(step, samples=step * 128) for step in (20, 40)),
    *(lines.primus(step, f"541.9/{step * 1000}.5") for step in (1, 2, 3)),
    *(lines.primus_2026(step, f"541.9/{step * 1000}.5") for step in (4, 5)),
    *(lines.primus_torchtitan(step) for step in (1, 10)),
    lines.megatron_bridge(70, energy=True),
    *(lines.torchtitan(step) for step in (1, 10, 20)),
    *(lines.nemo(step) for step in (8, 9)),
    *(lines.nemo_bar(step) for step in (7, 8)),
    *(lines.nanotron(step) for step in (1, 2)),
    *(lines.pipe(step) for step in (1, 2)),
    "[t] [INFO] [timer.py:198:stop] 0/10, RunningAvgSamplesPerSec=3.5, CurrSamplesPerSec=2.5, MemAllocated=1GB",
    "[t] [INFO] [logging.py:68:log_dist] [Rank 0] step=10, skipped=1, lr=[1e-07], mom=[(0.9, 0.95)]",
    "step: 19, loss: 9.912, throughput: 142.735 1607418413.2",
    '{"iteration": 19, "time": 0.5, "total_loss": 9.0}',
    *TABLE,
    "iter 7: loss 4.8801, time 103.74ms, mfu -100.00%",
    "step 00008/00030 (3.33%) | loss: 6.9 | lrm: 0.05 | dt: 1.00ms | tok/sec: 5,391 | mfu: 0.00 |",
    "step 00009 (3.33%) | loss: 6.9 | lrm: 0.05 | dt: 1.00ms | tok/sec: 5,391 | mfu: 0.00 |",
    "step   11/74 | loss 3.208939 (+nanz)| norm 1.4800 (+nanz)| lr 3.00e-04 | 44.57 ms | 91886 tok/s",
    "step 12: train loss 5.356185 (took 1452.121000 ms)",
    "iteration 13, loss: 4.3677, time: 44.570ms, tok/s: 1445.79, norm: 1.400",
    "s:14 trl:10.9598 lr:0.000002 norm:15.24",
    "step:15/1390 train_loss:5.1188 train_time:20289ms step_avg:176.42ms",
    "Num update steps per epoch = 60",
    "{'loss': '6.153', 'grad_norm': '0.876', 'learning_rate': '5e-05', 'epoch': '0.2667'}",
    " 40%|####      | 16/40 [00:00<00:02, 13.91it/s]",
    " 43%|####      | 17/40 [00:00<00:02]{'loss': '6.153', 'grad_norm': '0.876', 'epoch': '0.4'}",
    '{"current_steps": 18, "total_steps": 60, "loss": 1.52, "elapsed_time": "0:00:21"}',
    "{'loss': 1.5, 'iteration': '21/60', 'elapsed_time': '21s', 'train_speed(s/it)': 1.0}",
    ':::MLLOG {"time_ms": 17e11, "key": "global_batch_size", "value": 16, "metadata": {}}',
    ':::MLLOG {"key": "tracked_stats", "value": {"train_step_time": 0.5, "reduced_train_loss": 5.1},'
    ' "metadata": {"samples_count": 272}}',
    lines.SMI_HEADER,
    lines.smi(1234),
    "Traceback (most recent call last):",
    "ValueError: error",
]
LOG = ("\n".join(MIXED) + "\n").encode() + (DATA / "torch_gpt/cpu_2_processes.log").read_bytes()
ROWS = LOG.splitlines(keepends=True)
# Kinds whose lines say their step together with others: the first of a run, those before or behind.
NOT_ALONE = {"oneflow_steps", "mlperf"} | {name for name in KINDS if name.startswith("hf_trainer")}
Steps = dict[str, set[int]]


def steps(blocks: Iterable[bytes]) -> Steps:
    """The iterations that each kind of parser finds."""
    parsers = {name: kind() for name, kind in KINDS.items()}
    found: Steps = {name: set() for name in KINDS}
    for text in whole_lines(blocks):
        for name, parser in parsers.items():
            found[name] |= {step.iteration for step in parser.feed(text)}
    return found


REAL = steps([LOG])


def within(found: Steps) -> bool:
    # Its samples tell from what number LiBai counts, and another writer's line may tear them off.
    real = {**REAL, "libai": REAL["libai"] | {step + 1 for step in REAL["libai"]}}
    # What is left of a NeMo line that was torn off before `iteration 8/29 |` begins as Megatron's.
    real["megatron"] = real["megatron"] | {step - 1 for step in REAL["nemo"]}
    return all(found[name] <= real[name] for name in KINDS)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def test_the_sample_has_steps_of_every_kind() -> None:
    assert all(REAL.values())


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(0, len(LOG)), max_size=30))
def test_blocks_may_be_split_anywhere(places: list[int]) -> None:
    assert steps(cut(LOG, places)) == REAL


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, len(LOG)), st.integers(0, len(LOG)))
def test_a_piece_of_a_log_invents_no_step(begin: int, length: int) -> None:
    found = steps([LOG[: begin + length]])
    assert within(found)
    # From the middle of a line on, a number may have lost its first digits: begin at a line.
    start = LOG.rfind(b"\n", 0, begin) + 1
    assert within(steps([LOG[start : begin + length]]))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.sampled_from(list(lines.PREFIXES.values())), min_size=len(ROWS), max_size=len(ROWS))
)
def test_any_prefix_changes_no_step(prefixes: list[str]) -> None:
    rows = [prefix.encode() + row for prefix, row in zip(prefixes, ROWS, strict=True)]
    found = steps([b"".join(rows)])
    for name in KINDS:
        # One prefix is a bar of tqdm.
        if name != "hf_trainer":
            assert found[name] == REAL[name], name


@settings(max_examples=examples(60), deadline=None)
@given(st.permutations(range(len(ROWS))))
def test_any_order_of_lines_has_the_same_steps(order: list[int]) -> None:
    found = steps([b"".join(ROWS[place] for place in order)])
    for name in set(KINDS) - NOT_ALONE:
        assert found[name] == REAL[name], name


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(LOG)), st.sampled_from(ROWS)), min_size=1, max_size=8))
def test_lines_of_another_writer_in_the_middle_invent_no_step(
    torn: list[tuple[int, bytes]],
) -> None:
    text = LOG
    for place, row in torn:
        text = text[:place] + row + text[place:]
    assert within(steps([text]))


@settings(max_examples=examples(100), deadline=None)
@given(st.binary(max_size=400), st.integers(0, len(LOG)))
def test_any_bytes_do_no_harm(noise: bytes, place: int) -> None:
    for text in (noise, LOG[:place] + noise + LOG[place:]):
        steps([text])
        signs(text)
        unprefixed(text)


@settings(max_examples=examples(30), deadline=None)
@given(noise=st.binary(max_size=400), place=st.integers(0, len(LOG)), counted=st.integers(0, 1))
def test_a_diagnosis_of_anything_does_not_raise(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, place: int, counted: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_bytes(LOG[:place] + noise + LOG[place:])
    diagnose({path: [Place(1, 0, len(LOG) // 2)] * counted})
