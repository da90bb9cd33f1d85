"""The supervisor's look at GPUs before a run, from what nvidia-smi printed."""

from node.supervisor.gpus import gpu_fault

GPUS = [
    ["0", "GPU-aa", "4", "143771"],
    ["1", "GPU-bb", "4", "143771"],
]


def test_idle_gpus_are_fine() -> None:
    assert gpu_fault([0, 1], GPUS, []) is None


def test_missing_gpu_is_named() -> None:
    assert gpu_fault([0, 4], GPUS, []) == ("no_device", "GPU 4 is not there; nvidia-smi lists 0, 1")


def test_foreign_process_is_named_and_only_on_wanted_gpus() -> None:
    computing = [["GPU-bb", "4711", "/usr/bin/python3 --token=x"]]
    assert gpu_fault([0], GPUS, computing) is None
    words = "GPU 1 is in use by pid 4711 (python3); end it, or wait for it"
    assert gpu_fault([0, 1], GPUS, computing) == ("device_busy", words)


def test_memory_of_an_unseen_process_shows() -> None:
    gpus = [["0", "GPU-aa", "70000", "143771"]]
    words = "GPU 0 has 70000 of 143771 MiB in use by somebody not seen here"
    assert gpu_fault([0], gpus, []) == ("device_busy", words)
