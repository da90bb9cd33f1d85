"""Logs of nccl-tests and rccl-tests. Recorded by others (public logs of 2021 to 2026), names replaced."""

import json
from pathlib import Path

import pytest

from node.nccl_tests import row
from runner.__main__ import main
from runner.logs.collective_tests import collective_tests

LOG = """\
# nccl-tests version 2.18.3 nccl-headers=23003 nccl-library=23003
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1024 maxBytes 8589934592 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0
#
# Using devices
#  Rank  0 Group  0 Pid  12574 on gpu-14 device  0 [0000:06:00] NVIDIA Graphics Device
#  Rank  1 Group  0 Pid  12575 on gpu-14 device  1 [0000:09:00] NVIDIA Graphics Device
#  Rank  2 Group  0 Pid  14817 on gpu-15 device  0 [0000:06:00] NVIDIA Graphics Device
#  Rank  3 Group  0 Pid  14818 on gpu-15 device  1 [0000:09:00] NVIDIA Graphics Device
NCCL version 2.30.3+cuda13.0
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    35.49    0.03    0.05       0    33.42    0.03    0.06       0
    67108864      16777216     float     sum      -1  2801.78   23.95   44.91       0  2804.72   23.93   44.86       0
  8589934592    2147483648     float     sum      -1   323879   26.52   49.73       0   323213   26.58   49.83       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 20.6323
#
# Collective test concluded: all_reduce_perf
#
# nccl-tests version 2.18.3 nccl-headers=23003 nccl-library=23003
# Collective test starting: alltoall_perf
# nThread 1 nGpus 1 minBytes 2 maxBytes 8589934592 step: 2(factor)
  8589934592  1073741824  float  none  -1  249500  34.43  17.21  0  245143  35.04  17.52  N/A
# Avg bus bandwidth : 6.72901
# Collective test concluded: alltoall_perf
"""
OLD = """\
# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#                                               out-of-place                       in-place
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
[1,0]<stdout>:     1048576        262144   float     sum    105.9    9.90   17.33  5e-07    105.7    9.92   17.37  5e-07
"""


def test_each_test_of_a_log_has_its_sizes(tmp_path: Path) -> None:
    reduced, exchanged = collective_tests(LOG.splitlines())
    assert (reduced["operation"], reduced["ranks"]) == ("all_reduce", 4)
    assert (reduced["hosts"], reduced["devices"]) == (
        ["gpu-14", "gpu-15"],
        ["NVIDIA Graphics Device"],
    )
    assert (reduced["version"], reduced["library"]) == ("2.18.3", "2.30.3+cuda13.0")
    assert (reduced["average_bus_gb_per_s"], reduced["wrong"]) == (20.6323, 0)
    assert [one["bytes"] for one in reduced["rows"]] == [1024, 67_108_864, 8_589_934_592]
    assert reduced["rows"][1]["out_of_place"] == {
        "time_us": 2801.78, "algorithm_gb_per_s": 23.95, "bus_gb_per_s": 44.91, "wrong": 0.0
    }  # fmt: skip
    assert exchanged["rows"][0]["in_place"]["wrong"] is None


def test_lines_of_2021_have_no_root_and_a_launchers_words_before_them() -> None:
    (test,) = collective_tests(OLD.splitlines())
    assert test["rows"][0]["out_of_place"]["bus_gb_per_s"] == 17.33


@pytest.mark.parametrize(
    "line", ["", "1024 256 float sum", "1 2 float sum 1.2.3 4 5 0 1 2 3 0", "9" * 600]
)
def test_another_line_is_none(line: str) -> None:
    assert row(line) is None


def test_parse_prints_a_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "all_reduce.log"
    log.write_text(LOG)
    assert main(["parse", str(log)]) == 0
    said = capsys.readouterr().out
    assert "all_reduce, 4 ranks on 2 hosts, NVIDIA Graphics Device, average" in said
    assert "67,108,864" in said
    assert main(["parse", str(log), "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["collective_tests"]) == 2
