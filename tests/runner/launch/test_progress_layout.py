"""A campaign drawn for terminals: every row narrower than they are, and fewer of them."""

from dataclasses import replace

import pytest

from runner.launch.campaign_status import Running, Status, Waiting
from runner.launch.progress_layout import Picture

NAME = "zero_stage=1,micro_batch_size=16,activation_checkpointing=selective"
RUN = Running(NAME, 1, 1, 3600.0, "", ("node-a", "node-b"), 99_999, 100_000, 12_345.6, 10.123,
              143_771.0, 36_000.0, title=f"[3/40] {NAME}")  # fmt: skip
QUEUED = Waiting(NAME, 1, 1, title=NAME, words="queued, 3rd, Priority, expected 12:40")
WHOLE = Status(
    campaign="a-campaign-with-a-long-name-on-a-cluster",
    runs=40,
    ended={"ok": 10, "failed": 2},
    left_s=90_000.0,
    runs_now=(RUN, replace(RUN, title="b"), Running("c", 1, 1, 2.0, "", title="c")),
    queued=(QUEUED,) * 3,
    next=(NAME, NAME, NAME),
)


@pytest.mark.parametrize("height", [6, 24, 40])
@pytest.mark.parametrize("width", [30, 40, 60, 80, 81, 120, 300])
def test_it_fits(width: int, height: int) -> None:
    for count in (0, 1, 8):
        status = replace(WHOLE, runs_now=(RUN,) * count)
        rows = Picture(status).rows(width, height)
        assert max(row.cell_len for row in rows) < width
        assert len(rows) < height


def test_at_80_columns_nothing_of_a_figure_is_lost() -> None:
    text = [row.plain for row in Picture(WHOLE).rows(80, 24)]
    assert text[0].endswith("12 of 40 ended, 2 not ok, about 25 h left")
    assert text[1].startswith("[3/40] zero_stage=1,micro_batch_size=")
    assert text[1].endswith("3600 s, about 10 h left")
    assert text[2].endswith("99999/100000  12345.6 samples/s  loss 10.123  143771 MiB")
    assert "[" in text[2]
    assert text[5:7] == [f"c{' ' * 75}2 s"[:79], "  starting"]
    assert text[7].startswith("3 waiting, first zero_stage=1")
    assert text[8].startswith("next: zero_stage=1")
    assert text[8].endswith("; 2 more")


def test_a_bar_is_as_full_as_what_it_shows() -> None:
    def bar(ended: int) -> str:
        row = Picture(Status("c", 4, ended={"ok": ended})).rows(80, 24)[0].plain
        return row[row.index("[") + 1 : row.index("]")]

    assert (set(bar(0)), set(bar(4))) == ({"-"}, {"#"})
    assert bar(2).count("#") == len(bar(2)) // 2


def test_more_runs_than_there_is_room_for_are_counted() -> None:
    many = replace(WHOLE, runs_now=(RUN,) * 8, others=5)
    text = [row.plain for row in Picture(many).rows(80, 14)]
    assert "and 9 more running" in text


def test_without_a_terminal_it_is_a_line() -> None:
    one = replace(WHOLE, runs_now=(RUN,), queued=(), left_s=90.0)
    assert Picture(one).words == (
        f"[3/40] {NAME} on node-a, node-b: iteration 99999/100000, 12345.6 samples/s, loss 10.123,"
        " 143771 MiB, 3600 s, about 10 h left, campaign about 90 s left"
    )
    assert Picture(WHOLE).words.startswith("3 running; 3 waiting, first zero_stage=1")
    assert Picture(WHOLE).words.endswith("12 of 40 ended, campaign about 25 h left")
