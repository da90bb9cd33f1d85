"""The status words, and what in a message stands for which. One table (docs/parsers.md)."""

import re
from collections.abc import Mapping
from typing import NamedTuple


class Status(NamedTuple):
    """How a run ended by its logs: what the word says, in documents and before a line of evidence.

    `follows`: of another rank's end, so that it names the failure only where nothing else does, and
    then `alone` is its name. `caught`: programs catch it to go on by another way; of anything else
    the handler's own failure follows. `by_limit`: a log says so because a time limit's TERM and
    KILL reached it. `ends` is the end of an imported run.
    """

    says: str
    ends: str = "failed"
    follows: bool = False
    caught: bool = False
    by_limit: bool = False
    alone: str = ""


STATUSES: Mapping[str, Status] = {
    "ok": Status("steps were logged and no evidence of a failure follows the last one", "ok"),
    "diverged": Status("as ok, and the last logged loss is NaN or infinite", "diverged"),
    "unfinished": Status("the trainer ended before its own end", "unfinished"),
    "no_step": Status("no step and no evidence of a cause: exit 0 says nothing"),
    "out_of_memory": Status("memory ran out"),
    "disk_full": Status("the disk was full"),
    "missing_module": Status("a module or symbol is missing", caught=True),
    "missing_compiler": Status(
        "torch.compile found no compiler or no headers of Python on this node; run"
        " playbooks/base.yml, or have gcc, g++ and python3-dev installed there"
    ),
    "missing_dataset_index": Status("a dataset's file or its index is missing on this node"),
    "missing_file": Status("a file is missing", caught=True),
    "assertion": Status("an assertion failed"),
    "remote_shell": Status(
        "the launcher could not start the other nodes' processes over ssh; set ssh_mesh_enabled:"
        " true in the inventory and run playbooks/ssh.yml (pdsh comes with playbooks/base.yml)"
    ),
    "rendezvous": Status("the processes did not find each other", follows=True),
    "network_device": Status("the network device is not there"),
    "collective_timeout": Status("a collective timed out", follows=True),
    "collective_error": Status("a collective failed"),
    "connection_lost": Status(
        "a peer closed or refused the connection and no log says why", follows=True, by_limit=True
    ),
    "device_error": Status("a device failed"),
    "segfault": Status("a process crashed"),
    "node_lost": Status("a node failed", "node_lost"),
    "killed": Status("a process was killed (SIGKILL), often for the host's memory", by_limit=True),
    "time_limit": Status("a time limit ended the run", "timed_out", by_limit=True),
    "cancelled": Status("the job was cancelled", "interrupted", by_limit=True),
    "interrupted": Status("the run was interrupted", "interrupted", by_limit=True),
    "shell_error": Status("a shell could not run its script"),
    "launcher_error": Status("the launcher did not start the trainer"),
    "error": Status("the trainer raised an error", caught=True),
    "process_failed": Status("a process failed and no log says why", follows=True, by_limit=True),
    # Of lines alone: a process that its launcher ended, or NCCL's watchdog.
    "terminated": Status("", follows=True, alone="interrupted"),
    "aborted": Status("", follows=True, alone="segfault"),
}


def any_of(*patterns: bytes) -> re.Pattern[bytes]:
    """Match where one of the patterns does."""
    return re.compile(b"|".join(patterns))


def _meaning(status: str, *patterns: bytes) -> tuple[str, re.Pattern[bytes]]:
    return status, any_of(*patterns)


# What an exception (or a C++ what()) means, by its text; the first that fits. Order matters.
MEANINGS: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    _meaning(
        "out_of_memory",
        rb"OutOfMemoryError",
        rb"(?:CUDA|NPU|HIP|XPU|MLU|GPU) (?:error: )?out of memory",
        rb"cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED|CUDA_ERROR_OUT_OF_MEMORY",
        rb"DefaultCPUAllocator: (?:can't|not enough)",
        rb"Cannot allocate memory|^MemoryError\b|std::bad_alloc",
        rb"out of shared memory|insufficient shared memory",
        rb"shared memory segment .{0,200}No space left|RESOURCE_?EXHAUSTED|ResourceExhausted",
        rb"\bBadAlloc\b",
        rb"(?:Mlu|Cuda|Cpu|Npu)Device::Alloc",
        rb"EL0004|[Oo]ut of memory|\[cuBLAS ERROR\]: 3 |Error: Memory allocation failed at",
    ),
    _meaning(
        "disk_full",
        rb"No space left on device|Not enough disk space\b",  # the latter: datasets' builder.py
        rb"Disk quota exceeded|Errno (?:28|122)\b",
    ),
    _meaning("disk_full", rb"PytorchStreamWriter failed writing", rb"file write failed"),
    _meaning(  # Triton's (3.7 runtime/build.py) and Inductor's (torch 2.13 _inductor/exc.py)
        "missing_compiler",
        rb"Failed to find C compiler|No working C\+\+ compiler found",
        rb"\bPython\.h: No such",
    ),
    _meaning(
        "missing_dataset_index",
        rb"No such file or directory: \S*(?:_idx\.npy|index-cache|\.idx\b|\.bin\b)",
        rb"[Dd]ataset (?:path )?\S* ?does(?: not|n't) exist|could not find (?:data|index) file",
    ),
    _meaning(
        "missing_module",
        rb"ModuleNotFoundError|ImportError|undefined symbol",
        rb"GLIBC(?:XX)?_[\w.]{1,40}' not found|cannot open shared object file|No module named",
        rb"AttributeError: (?:partially initialized )?module '[^']+' has no attribute",
    ),
    _meaning(
        "missing_file",
        rb"FileNotFoundError|No such file or directory|: command not found$",
        rb"Error: Failed to open file '",
    ),
    _meaning(
        "rendezvous",
        rb"Rendezvous\w{0,40}Error|rendezvous.{0,40}(?:failed|timed? ?out)",
        rb"client socket has (?:timed out|failed)|Address already in use|EADDRINUSE",
        rb"connection to the C10d store has failed|DistNetworkError",
        rb"[Tt]imed out .{0,80}store based barrier",
        rb"Timed out waiting for clients|DistStoreError|wait timeout after \d+ms",
        rb"^socket\.gaierror\b",  # of an HTTP library another exception follows, and is judged
    ),
    _meaning(
        "collective_timeout",
        rb"[Ww]atchdog caught collective operation timeout|collective operation timeout",
        rb"Timed out waiting \d+ms for (?:recv|send)|EI000[26]\b|Notify register times out",
        rb"watchdog got stuck for|EE1002|[Ss]tream sync\w* timeout",
        rb"Heartbeat Lost|HCCL\w{0,40} .{0,60}time(?:d)?[ -]?out|task_?time ?out",
    ),
    _meaning("launcher_error", rb"Duplicate GPU detected"),
    _meaning("network_device", rb"No IB device found|[Nn]o (?:RDMA|network) (?:device|interface)"),
    _meaning(
        "network_device", rb"no socket interface found|Unable to find (?:address|interface) for"
    ),
    _meaning(
        "connection_lost",
        rb"ncclRemoteError|remote process exited|Connection (?:was likely )?closed",
        rb"Connection reset by peer|Connection refused|Broken pipe|Socket closed",
        rb"^socket\.timeout\b|^TimeoutError: \[Errno 110\]",
    ),
    _meaning(
        "collective_error",
        rb"NCCL error|\[NCCL ERROR\]|nccl(?:Unhandled|System|Internal|Invalid)\w+",
        rb"HCCL\b.{0,200}(?:error|fail)|\bEI\d{4}\b",
        rb"Check failed: (?:nccl|hccl|Hccl)[A-Z]\w+|unhandled (?:system|cuda) error",
    ),
    # What CUDA says where no device failed: how torch was built, how the node was started.
    _meaning(
        "error",
        rb"no kernel image is available|[Dd]river version is insufficient",
        rb"invalid device ordinal|system not yet initialized|No CUDA GPUs are available",
        rb"cudaErrorNoKernelImageForDevice|cudaErrorInsufficientDriver|cudaErrorInvalidDevice\b",
    ),
    _meaning(
        "device_error",
        rb"\[(?:CUDA|CUDNN|cuBLAS) ERROR\]|(?:CUDA|HIP) error|(?:cuda|hip)Error\w+",
        rb"Memory access fault by GPU|HW Exception by GPU|HSA_STATUS_ERROR|\bE[A-Z]9999\b",
        rb"CUBLAS_STATUS_\w+|CUDNN_STATUS_\w+|uncorrectable ECC",
        rb"device-side assert|NPU (?:function )?error|AclrtSynchronize",
        rb"E\w\d{4}: .{0,200}[Dd]evice|Check failed: cu(?:da|blas|dnn|rand)[A-Z]\w+",
    ),
    _meaning("segfault", rb"killed by signal: (?:Segmentation fault|Aborted)|SIGSEGV"),
    _meaning("killed", rb"killed by signal: Killed|SIGKILL"),
    _meaning("interrupted", rb"^KeyboardInterrupt|SIGINT|got signal: 2\b"),
    (
        "terminated",
        any_of(rb"SignalException: .{0,200}(?:SIGTERM|SIGHUP|signal: 1\b|15)|^SystemExit\b"),
    ),
    # MLPerf's trainer stopped before its target (mlcommons/logging 7bbf792 mllog/constants.py).
    _meaning("unfinished", rb'"key": "run_stop", .{0,1000}"status": "aborted"'),
    _meaning(
        "assertion",
        rb"AssertionError|is not divisible by|must be divisible|size mismatch",
        rb"shapes cannot be multiplied|Check failed",
    ),
)


def meaning(text: bytes) -> str | None:
    """Return the status that a message stands for, or None."""
    for status, pattern in MEANINGS:
        if pattern.search(text):
            return status
    return None
