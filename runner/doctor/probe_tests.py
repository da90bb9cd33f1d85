"""What the probe measures: each test's name, unit, check, and how far healthy figures differ. Pure.

node/probe.py and node/probe_deep.py have the formulas.
"""

from collections.abc import Collection, Mapping, Sequence

TESTS: Mapping[str, tuple[str, str]] = {
    "matmul_fp32": ("matrix product fp32", "TFLOP/s"),
    "matmul_tf32": ("matrix product tf32", "TFLOP/s"),
    "matmul_bf16": ("matrix product bf16", "TFLOP/s"),
    "matmul_fp16": ("matrix product fp16", "TFLOP/s"),
    "memory": ("memory bandwidth", "GB/s"),
    "node": ("all-reduce within a node", "GB/s bus"),
    "nccl_tests": ("nccl-tests' all-reduce within a node", "GB/s bus"),
    "all": ("all-reduce between all nodes", "GB/s bus"),
    "pair": ("all-reduce of pairs of nodes", "GB/s bus"),
    "pair_small": ("small messages of pairs", "1/s"),
    "pair_delivered": ("packets of pairs that need not be sent again", "%"),
    "switch": ("all-reduce of the nodes of a switch", "GB/s bus"),
    "sustained": ("matrix product, sustained", "TFLOP/s"),
    "to_device": ("copy from host to device", "GB/s"),
    "from_device": ("copy from device to host", "GB/s"),
    "all_gather": ("all-gather of all devices", "GB/s bus"),
    "all_to_all": ("all-to-all of all devices", "GB/s bus"),
    "send_receive": ("send and receive around all devices", "GB/s"),
    "storage_write": ("write and sync", "MB/s"),
    "storage_read": ("read", "MB/s"),
    "storage_sync": ("sync of 4 KiB", "1/s"),
    "storage_files": ("small files made and removed", "1/s"),
    "train_alone": ("training on one node", "samples/s"),
    "train_groups": ("training on a group of nodes", "samples/s"),
}
CORRECT, WRONG_SUMS = "correct", "nccl_tests_wrong"  # right or wrong, without a figure
MATMUL = "matmul_"  # and an arithmetic
# What the kinds of devices multiply in: a CPU has no units for halves but bf16's, if any.
DEVICE_TESTS: Mapping[str, tuple[str, ...]] = {
    "cpu": ("matmul_fp32", "matmul_bf16", "memory"),
    "npu": ("matmul_fp32", "matmul_bf16", "matmul_fp16", "memory"),
    "cuda": ("matmul_fp32", "matmul_tf32", "matmul_bf16", "matmul_fp16", "memory"),
}
COLLECTIVES = ("all_gather", "all_to_all", "send_receive")
NCCL_TESTS, SWITCH = "nccl_tests", "switch"
# Tests without a result where a node has no such program, and where no switches are known.
WHERE_POSSIBLE = (NCCL_TESTS, SWITCH)
NETWORK_TESTS = ("node", "all", "pair", *WHERE_POSSIBLE, *COLLECTIVES)
PAIRS = ("pair", "pair_small", "pair_delivered")
# What a check of node/probe_deep.py gives; each of these is judged like one of doctor's.
DEEP_TESTS: Mapping[str, tuple[str, ...]] = {
    "products": ("sustained",),
    "copies": ("to_device", "from_device"),
    "collectives": COLLECTIVES,
    NCCL_TESTS: (NCCL_TESTS,),
    "switches": (SWITCH,),
    "storage": ("storage_write", "storage_read", "storage_sync", "storage_files"),
}
# Tests of which what seems slow is measured again only by a second probe (`with_tries`).
ONE_TRY = tuple(
    test
    for check in ("products", "copies", NCCL_TESTS, "switches", "storage")
    for test in DEEP_TESTS[check]
)
AT_ONCE = DEEP_TESTS["products"]  # tests of which all devices take their samples at the same time
# Devices of one healthy node differ by up to 5 %. Two links of one kind differ by more, for their
# paths do; and a CPU shares its cores, caches and memory with everything else on the machine.
# A disk's speed depends on what it holds, and a message's time on what else the kernel does. Copies
# use the host's memory: within five minutes, 47.7 to 55.3 GB/s of two H200 in a virtual machine.
FLOORS: Mapping[str, float] = {
    **{"devices": 0.05, "cpu": 0.20, "network": 0.10},
    **{"small": 0.50, "storage": 0.50, "copies": 0.20, "delivered": 0.01},
}


def needed_checks(checks: Sequence[str], left_out: Collection[str]) -> list[str]:
    """Return the checks without those of which nothing is judged: all their tests are left out."""
    optional = ("collectives", "copies", NCCL_TESTS, "switches")
    unneeded = [check for check in optional if {*DEEP_TESTS[check]} <= {*left_out}]
    return [check for check in checks if check not in unneeded]


def check_of(test: str) -> str:
    """Return the check of the probe that measures a test."""
    deep = (check for check, tests in DEEP_TESTS.items() if test in tests)
    check = "devices" if any(test in tests for tests in DEVICE_TESTS.values()) else "network"
    return next(deep, check)


def floor_of(test: str, device: str) -> float:
    """Return by how much healthy figures of a test may differ."""
    if test in ("pair_small", "pair_delivered"):
        return FLOORS[test.removeprefix("pair_")]
    if test.startswith("storage_"):
        return FLOORS["storage"]
    if device == "cpu":
        return FLOORS["cpu"]
    if test in DEEP_TESTS["copies"]:
        return FLOORS["copies"]
    return FLOORS["network" if test in NETWORK_TESTS else "devices"]
