"""Hugging Face Trainer's parsers on its own output: transformers 5.23, accelerate 1.15, torch 2.13,
one CPU process: a random GPT-2 of 2 layers of 64, 40 steps of 8 samples, logging_steps 5, with
`transformers.logging.set_verbosity_info()`; `cpu.log` with eval_steps 20, `without_bars.log` with
disable_tqdm.
"""

from typing import Any

import pytest

from runner.base.paths import PROJECT
from runner.logs.kinds import readers_of_family
from runner.logs.measure import measure

DATA = PROJECT / "tests" / "data" / "hf_trainer"
READERS = readers_of_family("hf_trainer")
RECORDED = (DATA / "cpu.log").read_bytes()


def test_a_recorded_log() -> None:
    """The bar before the first object says 4, the one behind it 5."""
    found = measure(READERS, {0: [RECORDED]})
    steps = found.intervals
    assert [step.iteration for step in steps] == [5, 10, 15, 20, 25, 30, 35, 40]
    assert [step.loss for step in steps] == [6.153, 6.15, 6.152, 6.148, 6.154, 6.154, 6.154, 6.15]
    assert steps[0].grad_norm == 0.876
    assert steps[0].step_time_ms == pytest.approx(1000 / 13.91)
    assert steps[0].samples_per_s == pytest.approx(8 * 13.91)
    assert [step.step_time_ms is None for step in steps] == [False] * 4 + [True] * 4  # evaluated
    assert [step.remembers for step in steps[:4]] == [5, 10, 15, 20]  # its first step is in all
    assert found.train_iters == 40


def test_auto(read: Any) -> None:
    result = read(RECORDED)
    assert (result["system"], result["family"]) == ("command", "hf_trainer")
    assert (result["logged_lines"], result["last_loss"]) == (8, 6.15)
    assert result["step_time_ms_median"] == pytest.approx((1000 / 12.86 + 1000 / 11.53) / 2)
    warm = read(RECORDED, warmup_iters=None)
    assert warm["step_time_ms"] is None
    assert "run it by bench, or with include_num_input_tokens_seen" in warm["reason"]


def test_without_bars_the_epoch_says_the_step(read: Any) -> None:
    text = (DATA / "without_bars.log").read_bytes()
    result = read(text)
    assert (result["logged_lines"], result["first_iteration"], result["last_iteration"]) == (
        8,
        5,
        40,
    )
    assert (result["step_time_ms"], result["last_loss"]) == (None, 6.153)
    bare = read(text[text.index(b"{'loss'") :])  # nothing says how many steps an epoch has
    assert (bare["system"], bare["status"], bare["logged_lines"]) == ("command", "no_step", 0)
    assert "no progress bar" in bare["reason"]


@pytest.mark.made_log
@pytest.mark.parametrize(
    ("each", "epoch", "step"),
    [("60", "0.08333", 5), ("6,000", "0.08333", 500), ("6,000", "1.667", None), ("60", "1", 60)],
)
def test_an_epoch_whose_digits_are_too_few_says_no_step(
    each: str, epoch: str, step: int | None
) -> None:
    text = f"  Num update steps per epoch = {each}\n{{'loss': '1.5', 'epoch': '{epoch}'}}\n"
    found = measure(READERS, {0: [text.encode()]})
    assert [one.iteration for one in found.intervals] == ([step] if step else [])


@pytest.mark.made_log
def test_lines_of_4_x_and_a_slow_step() -> None:
    bar = "\r  3%|3         | {}/100 [01:01<40:00, {}]"
    text = (
        bar.format(2, "25.00s/it")
        + "\n{'loss': nan, 'grad_norm': inf, 'learning_rate': 5e-05, 'epoch': 0.1}\n"
        + bar.format(3, "25.00s/it")
        + bar.format(4, "?it/s")
        + "\n{'eval_loss': 2.0, 'epoch': 0.1}\n"
        + bar.format(4, "9.00s/it")
        + "\n{'loss': 2.5, 'learning_rate': 5e-05, 'epoch': 0.15}\n"
        + bar.format(5, "9.00s/it")
    )
    first, second = measure(READERS, {0: [text.encode()]}).intervals
    assert (first.iteration, first.step_time_ms, first.nan) == (3, 25000, 1)
    assert (second.iteration, second.step_time_ms, second.loss) == (5, None, 2.5)


@pytest.mark.made_log
def test_a_bar_before_an_object_and_none_behind_says_its_step(read: Any) -> None:
    text = "".join(
        f"  {at}%|5 | {at}/100 [00:01<00:20{rate}]{{'loss': {loss}, 'grad_norm': 1.5}}\n"
        for at, rate, loss in ((5, "", 2.5), (10, ", 4.00it/s", 2.25))
    )
    steps = measure(READERS, {0: [text.encode()]}).intervals
    assert [(step.iteration, step.loss, step.step_time_ms) for step in steps] == [
        (5, 2.5, None),
        (10, 2.25, 250),
    ]
    result = read(text.encode())
    assert (result["family"], result["last_iteration"]) == ("hf_trainer", 10)


@pytest.mark.made_log
@pytest.mark.parametrize("behind", ["", " 20%|# | 20/100 [00:02<00:20, 4.00it/s]\n"])
def test_objects_that_were_written_together_have_no_steps(behind: str) -> None:
    """A buffered stdout: no bar says which step is whose."""
    text = "  9%|# | 9/100 [00:01<00:20, 4.00it/s]{'loss': 2.5, 'epoch': 1}\n{'loss': 2.4, 'epoch': 2}\n"
    assert measure(READERS, {0: [(text + behind).encode()]}).intervals == ()


def test_a_log_that_ends_behind_an_object_has_its_steps_until_there() -> None:
    text = RECORDED[: RECORDED.rindex(b"{'loss'") + 30]
    found = measure(READERS, {0: [text]})
    assert [step.iteration for step in found.intervals] == [5, 10, 15, 20, 25, 30, 35]


# --- a first step that tqdm remembers -------------------------------------------------------------


def drawn(
    steps: int,
    step_s: float,
    *,
    first_s: float = 31.0,
    evaluate: int = 0,
    runtime: bool = False,
    each: int = 5,
) -> str:
    """A log with the bars that tqdm 4.67 draws (std.py, EMA, `update`), and a redrawn one behind
    each object; an evaluation takes 3 s.
    """
    text, now, done, drawn_at, at = [], 0.0, 0, 0, 0.0
    average = [0.0, 0.0]

    def bar() -> str:
        rate = average[0] / average[1] if average[1] else 0.0
        words = f"{rate:5.2f}it/s" if rate > 1 else f"{1 / rate:5.2f}s/it" if rate else "?it/s"
        return f"\r 5%|#| {done}/{steps} [00:{int(now) % 60:02d}<00:09, {words}]"

    text.append(bar())
    for done in range(1, steps + 1):
        now += step_s if done > 1 else first_s
        if now - at >= 0.1:
            newest = (done - drawn_at, now - at)
            average = [0.3 * new + 0.7 * old for new, old in zip(newest, average, strict=True)]
            drawn_at, at = done, now
            text.append(bar())
        if done % each == 0:
            words = f", 'train_runtime': '{now:.4g}'" if runtime else ""
            text.append(f"\r{{'loss': '2.5', 'epoch': '0.1'{words}}}\n{bar()}")
        if evaluate and done % evaluate == 0:
            now += 3.0
            text.append(f"\r{{'eval_loss': '2.5', 'epoch': '0.1'}}\n{bar()}")
    return "".join(text) + "\n{'train_runtime': '9', 'train_loss': '2.5'}\n"


@pytest.mark.made_log
@pytest.mark.parametrize("warmup", [None, 20])
@pytest.mark.parametrize(
    ("steps", "step_s", "more"),
    [
        (60, 0.05, {"runtime": True}),
        (400, 0.05, {"runtime": True, "evaluate": 20}),
        (3000, 0.2, {"runtime": True, "each": 1}),  # digits end: one line of ten has a time
        (400, 0.05, {}),
        (200, 1.0, {"each": 10}),
        (800, 0.05, {"evaluate": 200}),
    ],
)
def test_no_time_holds_a_slow_first_step_or_an_evaluation(
    read: Any, steps: int, step_s: float, more: dict[str, Any], warmup: int | None
) -> None:
    """Steps of 50 ms behind one of 31 s were 68 ms and more."""
    result = read(drawn(steps, step_s, **more).encode(), warmup_iters=warmup)
    assert result["step_time_ms"] == pytest.approx(step_s * 1000, rel=0.005)


@pytest.mark.made_log
@pytest.mark.parametrize("more", [{"steps": 60}, {"steps": 800, "evaluate": 20}])
def test_where_nothing_but_such_bars_says_a_time_the_reason_names_the_cure(
    read: Any, more: dict[str, Any]
) -> None:
    result = read(drawn(step_s=0.05, **more).encode(), warmup_iters=20, global_batch_size=16)
    assert (result["step_time_ms"], result["samples_per_s"]) == (None, None)
    assert "tqdm's moving average" in result["reason"]
    assert "run it by bench, or with include_num_input_tokens_seen" in result["reason"]
