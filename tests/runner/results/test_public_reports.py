"""Causes in the words of public reports; each kind with a form of its own (regressions.md)."""

from pathlib import Path

import pytest

from runner.results.diagnosis.verdict import Verdict
from tests.runner.results.diagnosed import diagnosed

pytestmark = pytest.mark.made_log

TRACE = [
    "Traceback (most recent call last):",
    '  File "train.py", line 7, in <module>',
    "    main()",
]
FAULT = [
    "terminate called after throwing an instance of 'c10::Error'",
    "  what():  CUDA error: illegal",
]
KEY = [*TRACE, "KeyError: 'attention_mask'"]
NCCL = [
    *TRACE,
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled system error",
    "ncclSystemError: System call (e.g. socket, malloc) or external library call failed.",
    "Last error:",
]
BAR = " 31%|###1      | 62/200 [07:57<17:42,  7.70s/it]\r 32%|###2      | 63/200 [08:05<17:34,  7.70s/it]"
DCP = (
    "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([0])"
)


def verdict(tmp_path: Path, lines: list[str]) -> Verdict:
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + "\n")
    return diagnosed([path])


@pytest.mark.parametrize(
    "prefix",
    [
        *("3: ", "[3]: ", "May 11 10:00:0{n} ", "Jun  1 10:00:0{n} n1 slurmstepd[77]: "),
        *("job-0 trainer ", "n1: ", "2026-05-11T10:00:0{n}.123456789Z stderr F "),
        *("2026-05-11T10:00:0{n}.1234567Z ", "[1,3]<stderr>:", "(RayTrainWorker pid=31) "),
    ],
)
def test_a_cause_behind_any_prefix(tmp_path: Path, prefix: str) -> None:
    for lines, status, words in ((FAULT, "device_error", "what():"), (KEY, "error", "KeyError: ")):
        said = verdict(tmp_path, [prefix.format(n=n) + line for n, line in enumerate(lines)])
        assert (said.status, words in said.sentence) == (status, True)


@pytest.mark.parametrize(
    ("lines", "status", "words"),
    [
        ([*TRACE, "socket.timeout: timed out"], "connection_lost", "socket.timeout: timed out"),
        ([*TRACE, "TimeoutError: [Errno 110] Timed out"], "connection_lost", "[Errno 110]"),
        ([*TRACE, "socket.gaierror: [Errno -3] Temporary failure"], "rendezvous", "gaierror: "),
        # an HTTP library's, with the socket's words in it: no peer of the training
        (
            [
                *TRACE,
                "socket.gaierror: [Errno -2] Name or service not known",
                "",
                "During handling of the above exception, another exception occurred:",
                "",
                *TRACE,
                "requests.exceptions.ConnectTimeout: HTTPSConnectionPool(host='huggingface.co'): "
                "[Errno 110] Connection timed out",
            ],
            "error",
            "requests.exceptions.ConnectTimeout: ",
        ),
        ([*TRACE, "re.error: missing ), unterminated subpattern"], "error", "re.error: missing"),
        (
            [
                *("  + Exception Group Traceback (most recent call last):", *TRACE[1:]),
                "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
                "  +-+---------------- 1 ----------------",
                *(
                    "    | " + line
                    for line in [*TRACE, "torch.OutOfMemoryError: CUDA out of memory."]
                ),
                "    +------------------------------------",
            ],
            "out_of_memory",
            "torch.OutOfMemoryError",
        ),
        (["Memory access fault by GPU node-2 on address 0x7f"], "device_error", "GPU node-2"),
        (
            [*TRACE, "torch.AcceleratorError: HIP error: unspecified launch failure"],
            "device_error",
            "HIP",
        ),
        (
            [BAR + "HW Exception by GPU node-4 reason :GPU Hang"],
            "device_error",
            ": HW Exception by",
        ),
        ([*TRACE, "SignalException: Process 7 got signal: 1"], "interrupted", "nohup does not"),
        ([*TRACE, "a.SignalException: Process 7 got signal: 2"], "interrupted", "got signal: 2"),
        (
            [*NCCL, "Duplicate GPU detected : rank 1 and rank 0"],
            "launcher_error",
            ": Duplicate GPU",
        ),
        (
            [*NCCL, "Error: shared memory segment /dev/shm/x, No space left"],
            "out_of_memory",
            "/dev/shm",
        ),
        ([*NCCL, "Call to ibv_create_qp failed"], "collective_error", ": Call to ibv_create_qp"),
        (
            [
                *TRACE,
                DCP,
                f"{TRACE[0]} (RANK 0)",
                '  File "fs.py", line 1, in _write',
                "OSError: [Errno 122]",
            ],
            "disk_full",
            "OSError: [Errno 122]",
        ),
        (
            [*TRACE, "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory"],
            "out_of_memory",
            "RESOURCE",
        ),
        (
            [*TRACE, "RuntimeError: failed", "Out of memory error on GPU 3."],
            "out_of_memory",
            "on GPU 3",
        ),
        (["ORTE was unable to reliably start one or more daemons."], "launcher_error", "ORTE was"),
        (
            ["srun: error: Application launch failed: Invalid node name"],
            "launcher_error",
            "Invalid",
        ),
        (["EH9999: Inner Error!", "  EH9999 [Init] failed"], "device_error", "EH9999"),
        (["EE1002: 2026-05-11 Stream synchronize timeout."], "collective_timeout", "EE1002"),
        ([BAR + "Killed"], "killed", ": Killed ("),
        (
            [
                "[ 9.1] NVRM: Xid (PCI:0000:8a:00): 48, pid=4151, Double Bit ECC Error",
                "[rank2]:[E511 08:41:05.341 x] [Rank 2] Watchdog caught collective operation timeout",
            ],
            "device_error",
            "Xid",
        ),
        (
            [
                "n1:7 [0] NET/IB: Got completion from peer 10.0.0.2 with status=12 opcode=1 len=0",
                "[rank2]:[E511 08:41:05.341 x] [Rank 2] Watchdog caught collective operation timeout",
            ],
            "collective_error",
            "status=12",
        ),
        (
            [*TRACE, "RuntimeError: CUDA error: invalid device ordinal"],
            "error",
            "fewer GPUs than ranks",
        ),
        ([*TRACE, "RuntimeError: No CUDA GPUs are available"], "error", "No CUDA GPUs"),
    ],
)
def test_a_cause_in_words_of_its_own(
    tmp_path: Path, lines: list[str], status: str, words: str
) -> None:
    said = verdict(tmp_path, lines)
    assert (said.status, words in said.sentence) == (status, True), said.sentence


def test_a_programs_own_xid_is_no_fault_of_the_device(tmp_path: Path) -> None:
    said = verdict(tmp_path, ["NVRM: Xid (PCI:0000:8a:00): 43, pid=4151", *TRACE, "ValueError: x"])
    assert said.status == "error"


WRAPPED = [*TRACE, "    return f(*args, **kwargs)", "KeyError: 'MASTER_ADDR'"]
RANK_4 = ["[rank4]: " + line for line in [*TRACE, "RuntimeError: shape '[8, -1]' is invalid"]]
LATE = ["[rank0]:[E511 08:41:05.341 x] [Rank 0] Watchdog caught collective operation timeout"]


@pytest.mark.parametrize(
    "announced",
    [
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default",
        "I0511 08:00:01.1 7 torch/distributed/launcher/api.py:194] Starting elastic_operator with"
        " launch configs:",
        "+ torchrun --nproc_per_node 8 train.py",
        "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/8",
        "[2026-05-11 08:00:01,100] [INFO] [runner.py:571:main] cmd = /usr/bin/python3 -u",
        "using world size: 8, data-parallel size: 8",
    ],
)
def test_a_wrappers_error_of_an_earlier_launch_is_not_the_last_ones(
    tmp_path: Path, announced: str
) -> None:
    said = verdict(tmp_path, [*WRAPPED, announced, *LATE, *RANK_4])
    assert ("shape '[8, -1]'" in said.sentence, "rank 4" in said.sentence) == (True, True)
    said = verdict(tmp_path, [*WRAPPED, announced, *LATE])  # a consequence alone
    assert "KeyError" in said.sentence
    other = ["node1: " + line for line in WRAPPED]  # another stream's: perhaps of this launch
    assert "KeyError" in verdict(tmp_path, [*other, announced, *RANK_4]).sentence
