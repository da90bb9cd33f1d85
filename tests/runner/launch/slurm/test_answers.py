"""What Slurm prints becomes nouns; what is odd becomes nothing."""

import time

import pytest

from runner.launch.slurm import answers

from . import said


def test_squeue_is_read_line_by_line() -> None:
    jobs = answers.queued(said.SQUEUE)
    assert sorted(jobs) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert (jobs[1].state, jobs[1].nodes, jobs[1].reason) == ("RUNNING", "node[1-2]", "")
    assert (jobs[1].starts_at, jobs[1].comment) == (1795346242, "trainbench:abc")
    assert (jobs[2].state, jobs[2].reason, jobs[2].starts_at) == ("PENDING", "Resources", None)
    assert jobs[3].starts_at == 1795349842


def test_a_comment_of_several_lines_makes_no_job() -> None:
    jobs = answers.queued(said.SQUEUE)
    assert (jobs[8].state, jobs[8].comment) == ("PENDING", "two")
    job = answers.recorded(said.HOSTILE_COMMENT)
    assert job is not None
    assert (job.id, job.state, job.reason, job.nodes) == (8, "PENDING", "Priority", "")


def test_scontrol_is_read() -> None:
    job = answers.recorded(said.RUNNING)
    assert job is not None
    assert (job.state, job.nodes, job.partition) == ("RUNNING", "node[1-2]", "debug")
    assert (job.restarts, job.submitted_at) == (0, 1795346242)
    failed = answers.recorded(said.NO_OUTPUT_FOLDER)
    assert failed is not None
    assert (failed.reason, failed.exit_code, failed.exit_signal) == ("JobLaunchFailure", 0, 53)


def test_sacct_is_read_also_without_a_database() -> None:
    jobs = answers.accounted(said.COMPLETED)
    assert (jobs[2].state, jobs[2].by, jobs[2].nodes) == ("CANCELLED", None, "node1")


def test_who_cancelled_a_job_is_known_and_names_that_were_cut_are_whole() -> None:
    recorded = answers.accounted(said.ACCOUNTED)
    states = [(job.state, job.by, job.nodes) for job in recorded.values()]
    cancelled = ("CANCELLED", 20000)
    assert states == [(*cancelled, "node2"), ("FAILED", None, "node2"), (*cancelled, "")]
    output = "5|CANCELLED by 1000|0:15|1|2|n1\n6|OUT_OF_ME+|0:125|1|2|n1\n7|CANCELLED+|0:0|1|2|n1\n"
    jobs = answers.accounted(output)
    assert (jobs[5].state, jobs[5].by) == ("CANCELLED", 1000)
    assert (jobs[6].state, jobs[7].state) == ("OUT_OF_MEMORY", "CANCELLED")


def test_of_a_job_that_was_requeued_the_last_start_counts() -> None:
    rows = ["5|PREEMPTED|0:0|10|20|n1", "5|COMPLETED|0:0|140|150|n2"]
    for order in (rows, rows[::-1]):
        assert answers.accounted("\n".join(order))[5].state == "COMPLETED"
    recorded = answers.accounted(said.REQUEUED)
    assert (recorded[24].state, recorded[24].nodes) == ("CANCELLED", "")
    assert recorded[26].state == "PREEMPTED"
    waits = "5|PENDING|0:0|Unknown|Unknown|None assigned"
    for order in ([rows[0], waits], [waits, rows[0]]):
        found = answers.accounted("\n".join(order))[5]
        assert (found.state, found.nodes) == ("PENDING", "")


def test_jobs_ahead_are_those_of_higher_priority_then_older() -> None:
    jobs = answers.queued(said.SQUEUE)
    same = jobs[3].priority
    rows = (f"2|{same + 1}", f"3|{same}", f"1_[4-9]|{same}", f"9|{same}", "7|0", "x|9", f"8|{same}")
    pending = "".join(f"{row}|debug\n" for row in rows) + f"1|{same + 5}|down\n1|9\n"
    assert answers.ahead(pending, [jobs[3], jobs[7], jobs[5]]) == {3: 2, 7: 5, 5: 1}


def test_nodes_that_are_down_are_read_with_their_reasons() -> None:
    lines = ("node3|power cut", "node3|power cut", "n-4.site|none", "n5|Not responding | twice")
    assert answers.down_nodes("\n".join((*lines, "\x1b[2J|x", "n6", ""))) == {
        "node3": "power cut",
        "n-4.site": "",
        "n5": "Not responding | twice",
    }


def test_leaves_are_switches_of_a_tree_and_blocks() -> None:
    tree = "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]\nSwitchName=top Level=1 Nodes=n[1-4]\n"
    blocks = (
        "BlockName=rack1 BlockIndex=0 Nodes=gb[001-018] BlockSize=18\n"
        "BlockName=rack2 BlockIndex=1 Nodes=gb[019-036] BlockSize=18\n"
        "AggregatedBlock=rack1,rack2 BlockIndex=2 Nodes=gb[001-036] BlockSize=36\n"
    )
    assert answers.leaf_switches(tree) == ["n[1-2]"]
    assert answers.leaf_switches(blocks) == ["gb[001-018]", "gb[019-036]"]


def test_a_complaint_is_one_sentence() -> None:
    assert answers.sentence(said.NO_PARTITION) == (
        "invalid partition specified: nope; allocation failure: Invalid partition name specified"
    )


def test_hostile_text_is_no_job_and_takes_no_time() -> None:
    line = said.SQUEUE.splitlines()[0]
    for odd in (
        line.replace("PENDING", "\x1b[2J"),
        line.replace("2|", "-2|", 1),
        line.replace("2|", "9" * 5_000 + "|", 1),
        line.replace("4294901758", "٣"),
        "|".join(line.split("|")[:5]),
    ):
        assert answers.queued(odd) == {}
    (job,) = answers.queued(line.replace("Resources", "a\x1b]0;title\x07\x9b31mb")).values()
    assert job.reason == "ab"
    began = time.process_time()
    for much in ("|" * 10_000_000, "x\n" * 300_000, "JobId=1 " * 250_000, "9" * 2_000_000):
        assert answers.queued(much) == {}
        assert answers.accounted(much) == {}
        assert answers.recorded(much) is None
        assert len(answers.sentence(much[:1_000_000])) <= 1_000
    assert time.process_time() - began < 10


PARTITIONS = (  # of slurm 22.05.8, shortened
    "PartitionName=main AllowGroups=ALL Default=YES MaxTime=UNLIMITED MinNodes=1\n"
    "PartitionName=short AllowGroups=ALL Default=NO MaxTime=1-02:03:04 MinNodes=1\n"
    "PartitionName=quick AllowGroups=ALL Default=NO MaxNodes=2 MaxTime=00:30:00 MinNodes=1\n"
)


@pytest.mark.parametrize(
    ("name", "seconds"),
    [(None, None), ("main", None), ("short", 93_784.0), ("quick", 1800.0), ("sho", None)],
)
def test_a_partition_says_how_long_a_job_may_take(name: str | None, seconds: float | None) -> None:
    assert answers.longest_s(PARTITIONS, name) == seconds
