"""OneFlow's GPT-2: document 003's trainer and its successor. The first address's node prints.

* `step: 19, loss: 9.912, throughput: 142.735 1607418413.2` (gpt-2/src/util.py:166-167): samples
  a second of the whole job since the line before (the first includes compilation), and
  time.time(). The same class prints more losses between them;
* `| step | micro_batches | samples | throughput | latency | loss |`, a table whose first column was
  once called `batches` (oneflow_gpt/util.py), `latency` in seconds;
* `step=10,micro_batches=320,samples=5120,throughput=35.88042,latency=14.26962,loss=11.23708,`
  (the same class with metric_print_format normal). What it printed is the first summand of the next
  mean (OneFlow-Benchmark 3f36d9b LanguageModeling/GPT/oneflow_gpt/util.py:139, :157), so that the
  loss is not the mean of its line alone.
"""

import re

from runner.logs.kind import Candidate, Sign
from runner.logs.lines import LOSS, WORD, LineParser
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import whole_number

# OneFlow alone is LiBai's, too.
_TRAINER = Sign((b"oneflow_gpt", b"oneflow-benchmark", b"/gpt-2/src/"))


class OneFlowSteps(LineParser):
    """`step: N, loss: ..` lines.

    Whether N counts from 0 shows at a run's first line: 9 or 19 (printed when N + 1 is a multiple
    of the period) and 0 do, 10 does not. Here it counts from 1.
    """

    name = "oneflow_steps"
    says = "OneFlow's `step: N, loss:` lines"
    candidates = (Candidate("oneflow_gpt"),)
    mentions = (Candidate("oneflow_gpt", "the log names its trainer", (_TRAINER,)),)
    loss_kind = "window"
    holds = "the mean since the line before, with all that came between"
    step = rb"step: \d{1,9}, (?:total_)?loss: "
    marker = b"step: "
    head = re.compile(
        WORD + rb"step: (?P<iteration>\d{1,9}), (?:total_)?loss: %b(?=,)" % LOSS, re.IGNORECASE
    )
    fields = (re.compile(rb"throughput: (?P<samples_per_s>[\d.]+)\s"),)
    _last_step = -1

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        step = whole_number(head["iteration"]) or 0
        if step <= self._last_step or self._last_step < 0:
            self.from_zero = step % 10 == 9 or step == 0
        self._last_step = step
        return super().row(head, tail, closed)


class OneFlowTable(LineParser):
    """Rows of the table. `latency` is seconds of one iteration in the window."""

    name = "oneflow_table"
    says = "OneFlow's `| step | micro_batches |` table"
    candidates = (Candidate("oneflow_gpt"),)
    loss_kind = "running"
    holds = "the mean since the line before, with all that came between"
    step = rb"\| \d{1,9} +\| \d{1,12} +\| \d{1,15} +\| [\d.]+ +\| [\d.]+ +\|"
    marker = b"     | "
    head = re.compile(
        rb"\| (?P<iteration>\d{1,9}) +\| \d{1,12} +\| \d{1,15} +\| (?P<samples_per_s>[\d.]+) +"
        rb"\| (?P<step_time_s>[\d.]+) +\|"
    )
    fields = (re.compile(rb"^ %b +\|" % LOSS, re.IGNORECASE),)


class OneFlowRecords(OneFlowTable):
    """The same figures as `step=..,micro_batches=..` records."""

    name = "oneflow_records"
    says = "OneFlow's `step=N,micro_batches=` records"
    step = rb",micro_batches="
    marker = b",micro_batches="
    head = re.compile(
        WORD + rb"step=(?P<iteration>\d{1,9}),micro_batches=\d{1,12},samples=\d{1,15},"
        rb"throughput=(?P<samples_per_s>[\d.]+),latency=(?P<step_time_s>[\d.]+),"
    )
    fields = (re.compile(rb"^loss=%b," % LOSS, re.IGNORECASE),)
