"""The status words, and what in a message stands for which. One list (docs/parsers.md)."""

import re
from collections.abc import Mapping

STATUSES: Mapping[str, str] = {
    "ok": "steps were logged and no evidence of a failure follows the last one",
    "diverged": "as ok, and the last logged loss is NaN or infinite",
    "unfinished": "steps were logged, and the log or a trainer's own word ends before its own end",
    "no_step": "no step and no evidence of a cause: exit 0 says nothing, upstream scripts hide it",
    "out_of_memory": "a device (CUDA, NPU, MLU), the host or its shared memory had no more memory",
    "disk_full": "a file could not be written: no space, or over the quota",
    "missing_module": "a Python module, or a symbol or library that one needs, is missing",
    "missing_compiler": "torch.compile found no compiler, or no headers of the Python that ran",
    "missing_dataset_index": "a dataset's file or its index is missing on a node",
    "missing_file": "another file is missing",
    "assertion": "sizes that do not fit each other, or another assertion of the trainer",
    "remote_shell": "a launcher could not start another node's processes: ssh refused, or no pdsh",
    "rendezvous": "the processes did not find each other: address, port, time limit of the store",
    "network_device": "the network device or interface that was asked for is not there",
    "collective_timeout": "a collective (NCCL, HCCL, gloo) waited in vain for some ranks",
    "collective_error": "NCCL or HCCL failed in itself",
    "connection_lost": "a peer closed or refused a connection, and nothing says why it went",
    "device_error": "a device failed: ECC, illegal access, an unknown CUDA or NPU error",
    "segfault": "a process ended by SIGSEGV, SIGBUS or SIGABRT",
    "node_lost": "a node failed, by the scheduler's words",
    "killed": "a process or the launcher was killed (SIGKILL), often for the host's memory",
    "time_limit": "the scheduler or a time limit ended the run",
    "cancelled": "somebody, or the scheduler for another job, cancelled the job",
    "interrupted": "Ctrl-C, or SIGTERM from outside",
    "shell_error": "a shell could not run its script: a variable is not set, say",
    "launcher_error": "a launcher, container engine or scheduler refused to start the trainer",
    "error": "another uncaught exception of the trainer",
    "process_failed": "a launcher saw a process fail, and no log says why",
}

# Consequences of another rank's end: they name the failure only where nothing else does. Two have
# another name then (verdict.py): `aborted`, as NCCL's watchdog ends its process, and `terminated`.
CONSEQUENCES = (
    "collective_timeout",
    "connection_lost",
    "rendezvous",
    "terminated",
    "aborted",
    "process_failed",
)
# What programs catch to go on by another way. Of anything else the handler's own failure follows.
COMMONLY_CAUGHT = ("error", "missing_module", "missing_file")


def any_of(*patterns: bytes) -> re.Pattern[bytes]:
    """Match where one of the patterns does."""
    return re.compile(b"|".join(patterns))


# What an exception (or a C++ what()) means, by its text; the first that fits. Order matters.
MEANINGS: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    (
        "out_of_memory",
        any_of(
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
    ),
    (
        "disk_full",
        any_of(
            rb"No space left on device|Not enough disk space\b",  # the latter: datasets' builder.py
            rb"Disk quota exceeded|Errno (?:28|122)\b",
        ),
    ),
    ("disk_full", any_of(rb"PytorchStreamWriter failed writing", rb"file write failed")),
    (  # Triton's (3.7 runtime/build.py) and Inductor's (torch 2.13 _inductor/exc.py)
        "missing_compiler",
        any_of(
            rb"Failed to find C compiler|No working C\+\+ compiler found", rb"\bPython\.h: No such"
        ),
    ),
    (
        "missing_dataset_index",
        any_of(
            rb"No such file or directory: \S*(?:_idx\.npy|index-cache|\.idx\b|\.bin\b)",
            rb"[Dd]ataset (?:path )?\S* ?does(?: not|n't) exist|could not find (?:data|index) file",
        ),
    ),
    (
        "missing_module",
        any_of(
            rb"ModuleNotFoundError|ImportError|undefined symbol",
            rb"GLIBC(?:XX)?_[\w.]{1,40}' not found|cannot open shared object file|No module named",
            rb"AttributeError: (?:partially initialized )?module '[^']+' has no attribute",
        ),
    ),
    (
        "missing_file",
        any_of(
            rb"FileNotFoundError|No such file or directory|: command not found$",
            rb"Error: Failed to open file '",
        ),
    ),
    (
        "rendezvous",
        any_of(
            rb"Rendezvous\w{0,40}Error|rendezvous.{0,40}(?:failed|timed? ?out)",
            rb"client socket has (?:timed out|failed)|Address already in use|EADDRINUSE",
            rb"connection to the C10d store has failed|DistNetworkError",
            rb"[Tt]imed out .{0,80}store based barrier",
            rb"Timed out waiting for clients|DistStoreError|wait timeout after \d+ms",
        ),
    ),
    (
        "collective_timeout",
        any_of(
            rb"[Ww]atchdog caught collective operation timeout|collective operation timeout",
            rb"Timed out waiting \d+ms for (?:recv|send)|EI000[26]\b|Notify register times out",
            rb"watchdog got stuck for|EE1002|[Ss]tream sync\w* timeout",
            rb"Heartbeat Lost|HCCL\w{0,40} .{0,60}time(?:d)?[ -]?out|task_?time ?out",
        ),
    ),
    ("launcher_error", any_of(rb"Duplicate GPU detected")),
    ("network_device", any_of(rb"No IB device found|[Nn]o (?:RDMA|network) (?:device|interface)")),
    (
        "network_device",
        any_of(rb"no socket interface found|Unable to find (?:address|interface) for"),
    ),
    (
        "connection_lost",
        any_of(
            rb"ncclRemoteError|remote process exited|Connection (?:was likely )?closed",
            rb"Connection reset by peer|Connection refused|Broken pipe|Socket closed",
        ),
    ),
    (
        "collective_error",
        any_of(
            rb"NCCL error|\[NCCL ERROR\]|nccl(?:Unhandled|System|Internal|Invalid)\w+",
            rb"HCCL\b.{0,200}(?:error|fail)|\bEI\d{4}\b",
            rb"Check failed: (?:nccl|hccl|Hccl)[A-Z]\w+|unhandled (?:system|cuda) error",
        ),
    ),
    (  # What CUDA says where no device failed: how torch was built, how the node was started.
        "error",
        any_of(
            rb"no kernel image is available|[Dd]river version is insufficient",
            rb"invalid device ordinal|system not yet initialized|No CUDA GPUs are available",
            rb"cudaErrorNoKernelImageForDevice|cudaErrorInsufficientDriver|cudaErrorInvalidDevice\b",
        ),
    ),
    (
        "device_error",
        any_of(
            rb"\[(?:CUDA|CUDNN|cuBLAS) ERROR\]|(?:CUDA|HIP) error|(?:cuda|hip)Error\w+",
            rb"Memory access fault by GPU|HW Exception by GPU|HSA_STATUS_ERROR|\bE[A-Z]9999\b",
            rb"CUBLAS_STATUS_\w+|CUDNN_STATUS_\w+|uncorrectable ECC",
            rb"device-side assert|NPU (?:function )?error|AclrtSynchronize",
            rb"E\w\d{4}: .{0,200}[Dd]evice|Check failed: cu(?:da|blas|dnn|rand)[A-Z]\w+",
        ),
    ),
    ("segfault", any_of(rb"killed by signal: (?:Segmentation fault|Aborted)|SIGSEGV")),
    ("killed", any_of(rb"killed by signal: Killed|SIGKILL")),
    ("interrupted", any_of(rb"^KeyboardInterrupt|SIGINT|got signal: 2\b")),
    (
        "terminated",
        any_of(rb"SignalException: .{0,200}(?:SIGTERM|SIGHUP|signal: 1\b|15)|^SystemExit\b"),
    ),
    # MLPerf's trainer stopped before its target (mlcommons/logging 7bbf792 mllog/constants.py).
    ("unfinished", any_of(rb'"key": "run_stop", .{0,1000}"status": "aborted"')),
    (
        "assertion",
        any_of(
            rb"AssertionError|is not divisible by|must be divisible|size mismatch",
            rb"shapes cannot be multiplied|Check failed",
        ),
    ),
)


def meaning(text: bytes) -> str | None:
    """Return the status that a message stands for, or None."""
    for status, pattern in MEANINGS:
        if pattern.search(text):
            return status
    return None
