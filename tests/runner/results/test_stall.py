"""Where the ranks of a stalled run stood: who is named, and when nobody is."""

from runner.results.stall import read_stacks, waited_for

IMPORT = (
    '  File "/e/torch/distributed/{}.py", line 7 in <module>\n  File "<frozen importlib>", line 9'
)
COLLECTIVE = '  File "/e/torch/distributed/distributed_c10d.py", line 7 in all_reduce'
AT_WORK = '  File "/opt/train.py", line 5 in step'


def stacks(*frames: str) -> str:
    return waited_for(
        read_stacks(
            "node3",
            "".join(
                f"[trainbench: rank {rank}, pid 1, stood at:]\nCurrent thread 0x1:\n{frame}\n"
                for rank, frame in enumerate(frames)
            ),
        )
    )


def test_ranks_that_import_wait_in_no_collective() -> None:
    assert stacks(*(IMPORT.format(name) for name in ("a", "b", "c")), AT_WORK) == ""


def test_the_one_that_is_in_no_collective_is_named() -> None:
    said = "rank 1 (node3) hung at /opt/train.py:5 in step, the others waited in a collective"
    assert stacks(COLLECTIVE, AT_WORK, COLLECTIVE) == said
    assert stacks(COLLECTIVE, IMPORT.format("a"), COLLECTIVE).startswith("rank 1 (node3) hung at")
