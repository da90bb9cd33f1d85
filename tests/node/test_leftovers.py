"""What others left on a node, from recorded texts of /proc: who is named, what refuses a run."""

from __future__ import annotations

import pytest

from node.npu import users
from node.supervisor.leftovers import (
    MIB,
    Disk,
    SeenProcess,
    Shared,
    cpu_note,
    dead,
    full,
    mapped,
    memory_note,
    named,
    process,
    shm_needs_a_look,
    shm_note,
    shm_refusal,
    suspects,
)
from tests.node.test_npu import CHIP, HEAD

# Of a Debian 12 that had been up for 36,400 s, at 100 ticks a second.
STAT = (
    b"4711 (python (v3) x) R 1 4711 4711 0 -1 4194304 1234 0 0 0 %d %d 0 0 20 0 9 0 2640000 1000000"
    b" %d 18446744073709551615 1 1 0 0 0 0 0 16781312 2 0 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
)
GIB = 1 << 30


def made(
    pid: int = 4711,
    *,
    age_s: float = 3 * 86400,
    cpu_s: float = 0.0,
    memory: int = 0,
    state: str = "S",
) -> SeenProcess:
    one = SeenProcess(pid, 1, state, 100, age_s, cpu_s, memory)
    one.name = "python3"
    return one


def who(one: SeenProcess) -> str:
    return named(one, "alice")


def test_a_process_is_read_whatever_its_name_holds() -> None:
    one = process(STAT % (600_000, 400_000, 262_144), 36_400.0, 100, 4096)
    assert one is not None
    assert (one.pid, one.ppid, one.state, one.name) == (4711, 1, "R", "python (v3) x")
    assert (one.age_s, one.cpu_s, one.memory, one.kernel) == (10_000.0, 10_000.0, GIB, False)
    assert process(b"", 1.0, 100, 4096) is None  # gone, or hidden
    assert process(b"12 (sh) S 1", 1.0, 100, 4096) is None


def test_a_process_is_named_with_what_can_be_seen_of_it() -> None:
    one = made()
    assert named(one, "alice") == "pid 4711 (python3) of alice, 3 days old"
    assert named(one, "") == "pid 4711 (python3), 3 days old"  # its user is hidden
    slurm = "0::/system.slice/slurmstepd.scope/job_812/step_0/user/task_0\n"
    assert named(one, "alice", slurm).endswith("3 days old, in Slurm job 812")
    old = "12:memory:/slurm/uid_1000/job_77/step_batch\n4:cpuset:/slurm/uid_1000/job_77\n"
    assert named(one, "alice", old).endswith(", in Slurm job 77")


def test_a_disk_is_full_by_bytes_or_by_files() -> None:
    assert full("/a", Disk(GIB, 64 * MIB), 64 * MIB) is None
    assert full("/a", Disk(GIB, 63 * MIB, 100, 50), 64 * MIB) == (
        "only 63 MiB are free on the disk of /a and a run needs 64; make room there"
    )
    assert "no further file (df -i)" in (full("/a", Disk(GIB, GIB, 100, 0), MIB) or "")
    assert full("/a", Disk(GIB, GIB, 0, 0), MIB) is None  # btrfs counts none


MAPS = """\
7f0000000000-7f0000001000 rw-s 00000000 00:1a 42    /dev/shm/torch_4711_9_0 (deleted)
7f0000002000-7f0000005000 rw-s 00000000 00:1a 43                         /dev/shm/nccl-aBc9
7f0000006000-7f0000007000 rw-s 00000000 00:99 44                         /dev/shm/of another node
7f0000008000-7f0000009000 r-xp 00000000 fe:01 45                         /usr/lib/libc.so.6
7f000000a000-7f000000b000 rw-p 00000000 00:00 0
"""


def test_what_is_mapped_of_shared_memory() -> None:
    assert list(mapped(MAPS, "00:1a")) == [(42, 4096, True), (43, 3 * 4096, False)]


@pytest.mark.parametrize(
    ("name", "uid", "age_s", "readable", "seen", "gone"),
    [
        ("torch_4711_9_0", 1000, 3600, True, True, True),  # ours, and held by none of ours
        ("psm_1a2b3c4d", 0, 3600, True, True, True),
        ("nccl-aBc9", 1000, 5, True, True, False),  # somebody just begins
        ("imagenet", 1000, 3600, True, True, False),  # put there on purpose
        ("nccl-aBc9", 1001, 3600, False, True, False),  # its user's processes cannot be read
        ("nccl-aBc9", 1002, 3600, False, True, True),  # its user has none
        ("nccl-aBc9", 1002, 3600, False, False, False),  # as far as hidepid lets us see
        ("torch_9999_9_0", 1001, 3600, False, True, True),  # no such process
        ("torch_4711_9_0", 1001, 3600, False, True, False),
        ("torch_9999_9_0", 1001, 3600, False, False, False),
    ],
)
def test_whether_a_file_in_shared_memory_was_left(
    name: str, uid: int, age_s: float, readable: bool, seen: bool, gone: bool
) -> None:
    assert dead(name, uid, age_s, {1, 4711}, {0, 1001}, readable, seen) is gone


def test_shared_memory_without_room_names_who_has_it() -> None:
    disk = Disk(64 * MIB, 3 * MIB)
    assert shm_needs_a_look(disk)
    assert not shm_needs_a_look(Disk(1000 * MIB, 960 * MIB))
    assert shm_needs_a_look(Disk(1000 * MIB, 940 * MIB))
    left = Shared("torch_9_9_0", 20 * MIB, 3 * 86400, "bob")
    held = Shared("", 40 * MIB, 60, "", made())
    assert shm_refusal(disk, [left, held], who) == (
        "only 3 of 64 MiB of /dev/shm are free and a run needs 16:"
        " pid 4711 (python3) of alice, 3 days old has 40 MiB in deleted files; end it;"
        " torch_9_9_0 has 20 MiB, of bob, 3 days old; remove it where nobody uses it"
    )
    assert "no process seen here uses it" in (shm_refusal(disk, [], who) or "")
    assert shm_refusal(Disk(64 * MIB, 16 * MIB), [left], who) is None
    assert shm_note(disk, [left], who) == (
        "/dev/shm holds 20 MiB that dead processes left:"
        " torch_9_9_0 has 20 MiB, of bob, 3 days old; remove it where nobody uses it"
    )
    assert shm_note(Disk(1000 * MIB, 900 * MIB), [left], who) is None  # 2 %


def test_who_may_keep_a_processor_busy() -> None:
    busy, now = made(2000, age_s=100, cpu_s=90), made(3000, state="R")
    idle, young = made(4000, age_s=100, cpu_s=20), made(5000, age_s=20, cpu_s=20)
    thread, us = SeenProcess(17, 2, "R", 0, 1e5, 1e5, 0), made(6000, age_s=100, cpu_s=90)
    assert suspects([busy, now, idle, young, thread, us], {6000}) == [busy, now]


@pytest.mark.parametrize(
    ("used", "cores", "granted", "device", "noted"),
    [
        ([0.4], 16, 16, "cpu", False),
        ([0.6], 16, 16, "cpu", True),
        ([0.05] * 100, 16, 16, "cpu", False),  # each is no more than a daemon that looks around
        ([0.9], 16, 16, "cuda", False),  # of 16 processors, one is left for it
        ([0.9, 0.3], 16, 16, "cuda", True),
        ([7.9], 128, 128, "cuda", False),
        ([8.0], 128, 128, "npu", True),
        ([4.0], 8, 4, "cpu", False),  # the other half of the node is another job's
        ([4.9], 8, 4, "cpu", True),
    ],
)
def test_processors_that_others_use(
    used: list[float], cores: int, granted: int, device: str, noted: bool
) -> None:
    taken = [(each, made(2000 + n)) for n, each in enumerate(used)]
    assert bool(cpu_note(taken, cores, granted, device, who)) is noted


def test_processors_that_others_use_name_the_busiest() -> None:
    taken = [(0.5, made(2000)), (2.0, made(2001)), (0.5, made(2002))]
    assert cpu_note(taken, 4, 4, "cpu", who) == (
        "pid 2001 (python3) of alice, 3 days old takes 2.0 of the run's 4 cores; 2 others take 1.0"
    )


def test_little_memory_names_who_has_most() -> None:
    table = [made(2000, memory=2 * GIB), made(2001, memory=50 * GIB)]
    assert memory_note(10 * GIB, 64 * GIB, 64 * GIB, table, who) is None
    assert memory_note(5 * GIB, 64 * GIB, 64 * GIB, table, who) == (
        "only 5.0 of 64.0 GiB of memory are free; pid 2001 (python3) of alice, 3 days old"
        " has 50.0 GiB"
    )
    assert memory_note(5 * GIB, 64 * GIB, 4 * GIB, table, who) is None  # other jobs' memory
    assert memory_note(5 * GIB, 64 * GIB, 64 * GIB, [], who) == (
        "only 5.0 of 64.0 GiB of memory are free"
    )


def test_processes_on_npus() -> None:
    """A second chip of the same NPU has the same number; processes are listed by both."""
    second = CHIP.splitlines()[1].replace("| 0  ", "| 1  ", 1).replace("{bus}", "C5")
    chips = CHIP.format(n=0, bus="C1", health="OK") + second.replace("{n}", "0") + "\n"
    rows = (
        "| NPU     Chip              | Process id    | Process name      | Process memory(MB) |\n"
        "| 0       1                 | 4711          | python3           | 30145              |\n"
        "| 4       0                 | 4712          |                   | 90                 |\n"
        "| No running processes found in NPU 3                                       |\n"
    )
    other = CHIP.format(n=4, bus="C9", health="OK")
    table = HEAD + chips + other + rows
    assert list(users(table)) == [(1, 4711, "python3"), (2, 4712, "")]
    assert list(users("")) == []
