"""A loss that is printed as NaN or infinite is a run that diverged, in every family's lines."""

import re
from collections.abc import Iterator

import pytest

from runner.figures.curves import diverged_at
from runner.logs.decoding import whole_lines
from runner.logs.kinds import KINDS
from runner.logs.logged_step import LoggedStep
from tests.runner.logs.test_gives import MADE, RECORDED

# What a loss stands behind, in all families' lines; `aux_loss` and the like are others'.
LABELLED = re.compile(
    r"(?<![\w-])((?:train_|training |reduced_train_|lm |lm-|lm_|total_|train )?loss[\"']?(?: *[:=] *| )"
    r"|trl:)"
    r"([\"']?)(-?\d[\d.]*(?:[eE][-+]?\d+)?)(?=[\"'\s,|}\])]|\x1b|$)"
)
# Lines whose loss has no label: a table's last column, a record's value.
OTHER = {
    "oneflow_table": (r"(\| +)\d+\.\d+( +\|)$", r"\1{}\2"),
    "mlperf": (r'("key": "train_loss", "value": )[\d.]+', r"\1{}"),
}
LOSSES = [name for name, kind in KINDS.items() if kind.loss_kind]
JSON = {"llama_factory", "libai_metrics", "mlperf", "nemo_metrics"}  # they print NaN so


def logs_of(name: str) -> Iterator[str]:
    """Yield logs that may have lines of a kind."""
    made = "".join(f"{line}\n" for line in MADE.get(name, ()))
    yield from (made, *(path.read_text("utf-8", "replace") for path in RECORDED))


def steps_of(name: str, text: str) -> list[LoggedStep]:
    """Return the steps that a kind reads in a log."""
    parser = KINDS[name]()
    return [step for part in whole_lines([text.encode()]) for step in parser.feed(part)]


def lost(name: str, text: str, word: str) -> str:
    """Return a log whose losses are all a word."""
    if name in OTHER:
        pattern, by = OTHER[name]
        text = re.sub(pattern, by.format(word), text, flags=re.MULTILINE)
    return LABELLED.sub(lambda match: f"{match[1]}{match[2]}{word}", text)


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_that_is_no_number_is_a_run_that_diverged(name: str) -> None:
    words = ("NaN", "Infinity") if name in JSON else ("nan", "inf")
    seen = 0
    for text in logs_of(name):
        steps = [step for step in steps_of(name, text) if not step.skipped]
        before = [step.iteration for step in steps if step.loss is not None]
        if not before or seen >= 2:
            continue
        for word in words:
            after = steps_of(name, lost(name, text, word))
            still = [step.iteration for step in after if step.loss is not None]
            assert len(still) < len(before), (word, still)
            lines = [step.interval(step.skipped or step.overflows) for step in after]
            assert diverged_at(lines) is not None, (word, lost(name, text, word)[:600])
        seen += 1
    assert seen, "no log has a loss of this kind"


def test_torch_gpts_line_need_not_count_it() -> None:
    line = "torch_gpt step=4/5 loss={} memory_reserved_mib=1 memory_used_mib=1\n"
    for word, count in (("nan", 1), ("-nan", 1), ("inf", 1), ("-", 0), ("1.5", 0)):
        (step,) = steps_of("torch_gpt", line.format(word))
        assert (step.nan, step.loss) == (count, 1.5 if word == "1.5" else None)
