"""The first cause, with evidence; and no cause where a log only sounds like one."""

# a log's line is as long as it is

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.results.diagnosis.causes import MEANINGS, STATUSES
from runner.results.diagnosis.line_judge import LineJudge
from runner.results.diagnosis.line_rules import RULES
from runner.results.diagnosis.verdict import Verdict
from tests.runner.logs.made_lines import libai, megatron, pipe
from tests.runner.results.diagnosed import diagnosed

pytestmark = pytest.mark.made_log

STEPS = [megatron(step) for step in (1, 2, 3)]
TRACE = [
    "Traceback (most recent call last):",
    '  File "train.py", line 7, in <module>',
    "    main()",
]
NUMPY = "A module that was compiled using NumPy 1.x cannot be run in NumPy 2, error: see above"


def trace(*exceptions: str, prefix: str = "") -> list[str]:
    return [prefix + line for text in exceptions for line in (*TRACE, text)]


@pytest.fixture
def verdict(tmp_path: Path) -> Any:
    def of(*logs: Sequence[str]) -> Verdict:
        paths = []
        for number, lines in enumerate(logs):
            paths.append(tmp_path / f"node{number}.log")
            paths[-1].write_text("\n".join(lines) + "\n")
        return diagnosed(paths)

    return of


# Lines as the programs' sources write them. Causes that a real log shows are in
# tests/runner/logs/test_shared_logs.py, which reads them whole.
CAUSES = [
    (
        "out_of_memory",
        trace("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB"),
    ),
    (
        "out_of_memory",
        trace("RuntimeError: NPU out of memory. Tried to allocate 20.00 MiB (NPU 0; ...)"),
    ),
    ("out_of_memory", trace("RuntimeError: CUDA error: out of memory")),
    ("out_of_memory", ["slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.0."]),
    ("out_of_memory", ["[123.4] Out of memory: Killed process 4242 (python3) total-vm:1kB"]),
    ("out_of_memory", ["srun: error: node3: task 7: Out Of Memory"]),
    ("disk_full", trace("OSError: [Errno 28] No space left on device: 'ckpt/mp_rank_00'")),
    ("missing_module", trace("ModuleNotFoundError: No module named 'torch._six'")),
    ("missing_module", trace("ImportError: amp_C.so: undefined symbol: _ZN3c10")),
    (
        "missing_module",
        trace("OSError: libcudart.so.10.1: cannot open shared object file: No such file"),
    ),
    ("missing_module", trace("AttributeError: module 'numpy' has no attribute 'float'.")),
    (  # as torch 2.13 says it without g++, and of Triton what its source raises
        "missing_compiler",
        trace(
            "torch._inductor.exc.InductorError: InvalidCxxCompiler: No working C++ compiler found in"
            " torch._inductor.config.cpp.cxx: (None, 'g++')"
        ),
    ),
    (
        "missing_compiler",
        trace(
            "torch._inductor.exc.InductorError: RuntimeError: Failed to find C compiler. Please"
            " specify via CC environment variable or set triton.knobs.build.impl."
        ),
    ),
    (
        "missing_compiler",
        [
            "/tmp/tmpn8c04nql/cuda_utils.c:5:10: fatal error: Python.h: No such file or directory",
            "compilation terminated.",
            *trace(
                "torch._inductor.exc.InductorError: CalledProcessError: Command '['/usr/bin/gcc']'"
                " returned non-zero exit status 1."
            ),
        ],
    ),
    (
        "missing_dataset_index",
        trace(
            "FileNotFoundError: [Errno 2] No such file or directory: '/d/a_indexmap_1ns_doc_idx.npy'"
        ),
    ),
    (
        "missing_file",
        trace("FileNotFoundError: [Errno 2] No such file or directory: 'gpt2-vocab.json'"),
    ),
    ("assertion", trace("AssertionError: 28 is not divisible by 8")),
    ("assertion", trace("RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 6x2)")),
    (
        "rendezvous",
        trace("RuntimeError: The server socket has failed to bind: Address already in use"),
    ),
    (
        "collective_error",
        trace(
            "torch.distributed.DistBackendError: NCCL error in: x.cpp:230, unhandled system error"
        ),
    ),
    ("device_error", trace("RuntimeError: CUDA error: an illegal memory access was encountered")),
    ("segfault", ["Fatal Python error: Segmentation fault"]),
    ("segfault", ["bash: line 1: 4242 Segmentation fault (core dumped) python3 pretrain_gpt.py"]),
    (
        "segfault",
        [
            "E0318 16:32:52 1 api.py:984] failed (exitcode: -11) local_rank: 3 (pid: 1) of binary: python3"
        ],
    ),
    (
        "segfault",
        trace("subprocess.CalledProcessError: Command '['x']' died with <Signals.SIGSEGV: 11>."),
    ),
    (
        "killed",
        trace("subprocess.CalledProcessError: Command '['x']' died with <Signals.SIGKILL: 9>."),
    ),
    ("time_limit", ["=>> PBS: job killed: walltime 3600 exceeded limit 3600"]),
    ("killed", ["Killed"]),
    ("killed", ["run.sh: line 131: 1948759 Killed                  deepspeed pretrain_gpt.py"]),
    ("killed", ["  exitcode  : -9 (pid: 3821757)"]),
    (
        "time_limit",
        [
            "slurmstepd: error: *** JOB 18 ON r6 CANCELLED AT 2021-05-23T08:46:02 DUE TO TIME LIMIT ***"
        ],
    ),
    ("cancelled", ["slurmstepd: error: *** STEP 18.0 ON r6 CANCELLED AT 2021-05-23T08:46:02 ***"]),
    ("interrupted", trace("KeyboardInterrupt")),
    (
        "interrupted",
        [
            "[2022-10-31 11:03:54,132] [INFO] [launch.py:295:sigkill_handler] Main process received SIGTERM, exiting"
        ],
    ),
    ("error", trace("ValueError: micro_batch_size 4 x data_parallel 2 does not divide 7")),
    (
        "remote_shell",
        trace(
            "RuntimeError: Using hostfile at hostfile but host=10.0.0.1 was not reachable via ssh."
        ),
    ),
    ("remote_shell", trace("RuntimeError: launcher 'pdsh' not installed.")),
    ("remote_shell", trace("RuntimeError: pdsh is not installed, unable to proceed")),
    ("remote_shell", trace("FileNotFoundError: [Errno 2] No such file or directory: 'pdsh'")),
    ("remote_shell", ["bash: line 1: pdsh: command not found"]),
    ("error", trace("Exception: Current loss scale already at minimum. Exiting run.")),
    ("out_of_memory", ["srun: error: r5: tasks 0-3: Out Of Memory"]),
    ("out_of_memory", ["slurmstepd: error: Exceeded job memory limit at some point."]),
    ("killed", ["srun: error: r7i5n2: tasks 0-3: Killed"]),
    ("killed", ["srun: error: node3: task 7: Exited with exit code 137"]),
    ("killed", ["mpirun noticed that process rank 3 with PID 4 exited on signal 9 (Killed)."]),
    ("segfault", ["srun: error: node3: task 7: Exited with exit code 139"]),
    ("segfault", ["srun: error: r7i5n2: task 4: Aborted (core dumped)"]),
    ("segfault", ["run.sh: line 12:  4242 Aborted                 (core dumped) python3 x.py"]),
    ("segfault", ["[ERROR] [launch.py:341] ['python3', 'x.py'] exits with return code = -6"]),
    (
        "segfault",
        ["*** SIGSEGV (@0x0) received by PID 4242 (TID 0x7f) from PID 0; stack trace: ***"],
    ),
    ("interrupted", ["srun: error: r7i5n2: tasks 0-3: Terminated"]),
    ("interrupted", ["failed (exitcode: -15) local_rank: 3 (pid: 1) of binary: python3"]),
    ("node_lost", ["srun: error: Node failure on r6"]),
    (
        "node_lost",
        [
            "slurmstepd: error: *** STEP 1.0 ON r5 CANCELLED AT 2021-05-23T08:46:02 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"
        ],
    ),
    ("process_failed", ["pdsh@head: node1: ssh exited with exit code 250"]),
    ("process_failed", ["[ERROR] [launch.py:341] ['python3', 'x.py'] exits with return code = 1"]),
]


@pytest.mark.parametrize(
    ("status", "lines"), CAUSES, ids=[f"{s}-{n}" for n, (s, _) in enumerate(CAUSES)]
)
def test_a_cause_is_named_with_and_without_steps(
    verdict: Any, status: str, lines: list[str]
) -> None:
    for before in ([], STEPS):
        found = verdict([*before, NUMPY, *lines])
        assert found.status == status
        assert found.path.name == "node0.log"
        assert f"node0.log:{found.line}" in found.sentence
        assert found.words.split()[0] in lines[(found.line or 0) - len(before) - 2]


ABORT = "[ERROR] [launch.py:324:sigkill_handler] ['python3', 'x.py'] exits with return code = -6"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (
            "collective_timeout",
            "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12) ran for 1800010 ms",
        ),
        (
            "collective_timeout",
            "[rank0]:[F318 ProcessGroupNCCL.cpp:1] [Rank 0] ProcessGroupNCCL's watchdog got stuck for 480 seconds",
        ),
        (
            "connection_lost",
            "  what():  NCCL error: remote process exited or there was a network error",
        ),
    ],
)
def test_nccls_watchdog_ends_its_process_by_abort(verdict: Any, status: str, words: str) -> None:
    assert verdict([*STEPS, words, "terminate called", ABORT]).status == status


STARTS = [
    ("error", "pretrain_gpt.py: error: unrecognized arguments: --foo"),
    (
        "missing_module",
        "python3: /lib/libc.so.6: version `GLIBC_2.34' not found (required by python3)",
    ),
    (
        "missing_module",
        "python3: error while loading shared libraries: libpython3.8.so.1.0: cannot open shared object file",
    ),
    ("missing_module", "/usr/bin/python3: No module named torch"),
    (
        "missing_module",
        "/usr/bin/python3: Error while finding module specification for 'torch.distributed.run' (ModuleNotFoundError: No module named 'torch')",
    ),
    ("missing_file", "python3: can't open file '/w/x.py': [Errno 2] No such file or directory"),
    ("missing_file", "bash: line 1: deepspeed: command not found"),
]


@pytest.mark.parametrize(("status", "line"), STARTS)
def test_a_start_that_fails_without_a_traceback(verdict: Any, status: str, line: str) -> None:
    """A shell's line about another program is no cause: not behind steps, not beside a cause."""
    assert verdict([line]).status == status
    assert verdict([line, "exits with return code = 2"]).status == status
    assert verdict([line, *trace("torch.cuda.OutOfMemoryError: CUDA out of memory.")]).status == (
        "out_of_memory"
    )
    assert verdict([*STEPS, line]).status == "ok"


@pytest.mark.parametrize(
    "prefix",
    [
        "2025-07-16T12:00:0{}.123456789Z ",
        "[2025-07-16 12:00:0{}] ",
        "2025-07-16 12:00:0{} ",
        "[1,3]<stderr>:",
        " 3: ",
        "gpu-master: ",
    ],
)
def test_a_traceback_behind_any_prefix(verdict: Any, prefix: str) -> None:
    lines = trace("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB")
    marked = [prefix.format(second) + line for second, line in enumerate(lines)]
    assert verdict([*STEPS, *marked]).status == "out_of_memory"


@pytest.mark.parametrize(
    ("status", "wrapper", "reason"),
    [
        (
            "collective_timeout",
            "[ERROR] HCCL error in: /usr1/x/ProcessGroupHCCL.cpp:64",
            "EI0002: [PID: 7277] The wait execution of the Notify register times out.",
        ),
        (
            "out_of_memory",
            "malloc:/usr1/x/NPUCachingAllocator.cpp:502 NPU error, error code is 207001",
            "EL0004: Failed to allocate memory. Possible Cause: memory is insufficient.",
        ),
    ],
)
def test_canns_own_line_says_more_than_the_exception_around_it(
    verdict: Any, status: str, wrapper: str, reason: str
) -> None:
    found = verdict([*STEPS, *trace(f"RuntimeError: {wrapper}"), reason])
    assert (found.status, found.words) == (status, reason)


HARMLESS = [
    "WARNING: error: no error here, failed to find libaio, ImportError is handled",
    "[WARNING] async_io: please install the libaio-dev package; NCCL timeout is 600 s; Killed: 0",
    "W tensorflow] Could not load dynamic library 'libcudart.so.10.1'; dlerror: libcudart.so.10.1: cannot open shared object file: No such file or directory",
    "  distributed_timeout_minutes ..................... 10",
    "[rank3]: Warning: destroy_process_group() was not called before program exit",
    "sigkill_handler: out of memory handling enabled",
    *trace("ModuleNotFoundError: No module named 'apex'"),
    "apex is not there: using torch instead",
]


def test_a_log_that_prints_error_and_trains_on_is_ok(verdict: Any) -> None:
    assert verdict([*HARMLESS, *STEPS]).status == "ok"
    assert verdict([megatron(1), *HARMLESS, megatron(2), *HARMLESS[:6]]).status == "ok"


def test_words_without_evidence_are_no_cause(verdict: Any) -> None:
    assert verdict(HARMLESS[:6]).status == "no_step"
    assert verdict([]).status == "no_step"


def test_noise_at_a_good_end_is_ok(verdict: Any) -> None:
    end = [
        *trace("BrokenPipeError: [Errno 32] Broken pipe"),
        "[INFO] Process 251850 exits successfully.",
    ]
    assert verdict([*STEPS, *end]).status == "ok"


def test_an_ignored_exception_ended_nothing(verdict: Any) -> None:
    lines = [
        "Exception ignored in: <function Pool.__del__ at 0x7f>",
        *trace("AttributeError: 'NoneType'"),
    ]
    assert verdict([*STEPS, *lines]).status == "ok"
    assert verdict([*STEPS, "ValueError: only a word of a log"]).status == "ok"


def test_a_warning_at_the_end_counts_only_where_steps_are_missing(verdict: Any) -> None:
    warning = "node1:1:2 [0] misc/socket.cc:72 NCCL WARN Connection closed by remote peer"
    assert verdict([megatron(3, of=3), warning]).status == "ok"
    assert verdict([megatron(2, of=3), warning]).status == "connection_lost"
    assert verdict([warning]).status == "connection_lost"


def test_a_caught_exception_on_the_silent_node_is_no_failure(verdict: Any) -> None:
    caught = trace("ModuleNotFoundError: No module named 'apex'")
    assert verdict([megatron(3, of=3)], caught).status == "ok"
    assert verdict([megatron(2, of=3)], [*caught, *["building"] * 600]).status == "ok"
    assert verdict([megatron(2, of=3)], caught).status == "missing_module"


def test_libais_closing_lines_after_an_exception_are_no_success(verdict: Any) -> None:
    lines = [
        "[03/30 11:37:56] lb.engine.trainer ERROR: Exception during training:",
        *trace("ValueError: no"),
    ]
    end = "[03/30 11:37:56] lb.engine.hooks INFO: Overall training speed: 2 iterations in 0:00:05"
    assert verdict([libai(99, time=1.0), *lines, end]).status == "error"


def test_an_earlier_runs_failure_does_not_count(verdict: Any) -> None:
    assert verdict([*STEPS, *trace("ValueError: first run"), *STEPS]).status == "ok"
    assert verdict([*STEPS, *STEPS, *trace("ValueError: second run")]).status == "error"


def test_the_cause_comes_before_what_follows_from_it(verdict: Any) -> None:
    timeout = (
        "[rank0]:[E328 00:21:12.9 ProcessGroupNCCL.cpp:683] [Rank 0] Watchdog caught collective"
        " operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600031 ms"
    )
    oom = trace(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", prefix="[rank5]: "
    )
    for logs in ([[timeout], oom], [oom, [timeout]], [[timeout, *oom]]):
        found = verdict(*logs)
        assert found.status == "out_of_memory"
        assert "rank 0 waited in ALLREDUCE" in found.sentence
        assert "rank 5" in found.sentence


def test_a_timeout_alone_says_who_waited_and_for_whom(verdict: Any) -> None:
    lines = ["[rank1]: loading", "[rank2]: loading"]
    for rank in (0, 2):
        lines.append(
            f"[rank{rank}]:[E328 00:21:12.9 x.cpp:683] [Rank {rank}] Watchdog caught collective"
            " operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, Timeout(ms)=600000) ran"
        )
    found = verdict(lines)
    assert found.status == "collective_timeout"
    assert "ranks 0, 2 waited in ALLREDUCE for some of ranks 1" in found.sentence


def test_the_clock_decides_between_two_nodes(verdict: Any) -> None:
    def at(clock: str, words: str) -> list[str]:
        return [f"[2026-03-12 {clock},324] [INFO] [launch.py:1:main] here", *trace(words)]

    later, sooner = at("19:31:00", "ValueError: later"), at("19:30:00", "ValueError: sooner")
    assert "sooner" in verdict(later, sooner).sentence
    assert "sooner" in verdict(sooner, later).sentence


def test_a_chain_of_exceptions_begins_with_its_cause(verdict: Any) -> None:
    more = "During handling of the above exception, another exception occurred:"
    lines = [
        *trace("OSError: [Errno 28] No space left on device"),
        "",
        more,
        "",
        *trace("RuntimeError: save failed"),
    ]
    assert verdict([*STEPS, *lines]).status == "disk_full"


CAUGHT = (
    "TypeError: ParallelAttention.forward() got an unexpected keyword argument 'cpu_offloading'"
)
ENDED = "RuntimeError: view size is not compatible with input tensor's size and stride"
HANDLING = ["", "During handling of the above exception, another exception occurred:", ""]


@pytest.mark.parametrize("prefix", ["", "[rank3]: ", "[default3]:[rank3]: "])
def test_what_a_handler_went_on_to_ended_the_run(verdict: Any, prefix: str) -> None:
    """deepspeedai's Megatron-DeepSpeed 4efb479d tries an argument and goes on without it
    (megatron/model/transformer.py:1334-1348); then torch refused a view.
    """
    chain = [
        *trace(CAUGHT, prefix=prefix),
        *[prefix + line for line in HANDLING],
        *trace(ENDED, prefix=prefix),
    ]
    assert verdict(chain).words == ENDED
    assert verdict([*STEPS, *chain]).words == ENDED
    both = trace(CAUGHT, CAUGHT) + HANDLING[1:] * 2 + trace(ENDED, ENDED)  # ranks in turns
    assert verdict(both).words == ENDED


def test_a_traceback_that_was_logged_and_survived_is_not_the_cause(verdict: Any) -> None:
    logged = trace("ValueError: logged by rank 1, which went on", prefix="[default1]:")
    other = trace("KeyError: 'rank 0'", prefix="[default0]:")
    last = trace(ENDED, prefix="[default1]:[rank1]: ")
    assert verdict([*logged, "[default1]:building", *last]).words == ENDED
    # Another rank's end is no sign of that; nor is what only follows from an end, or a thread's.
    assert verdict([*other, *last]).words == "KeyError: 'rank 0'"
    closed = trace("RuntimeError: Connection reset by peer", prefix="[default1]:[rank1]: ")
    assert verdict([*logged, *closed]).words.startswith("ValueError")
    for aside in ("Exception in thread Thread-2 (watch):", "Error in atexit._run_exitfuncs:"):
        thread = [f"[default1]:{aside}", *trace("EOFError", prefix="[default1]:")]
        assert verdict([*last, *thread]).words == ENDED


def test_an_exception_that_was_made_of_another_leaves_that_the_cause(verdict: Any) -> None:
    made = "The above exception was the direct cause of the following exception:"
    lines = [*trace(CAUGHT), "", made, "", *trace("RuntimeError: no model")]
    assert verdict(lines).words == CAUGHT


# What pdsh 2.34 with OpenSSH 9.2 printed of a server without our key, and of an unknown one.
DENIED = [
    "10.10.0.9: Permission denied, please try again.",
    "10.10.0.9: root@10.10.0.9: Permission denied (publickey,password).",
]
UNKNOWN = [
    "10.10.0.9: No ED25519 host key is known for 10.10.0.9 and you have requested strict checking.",
    "10.10.0.9: Host key verification failed.",
]


@pytest.mark.parametrize("lines", [DENIED, DENIED[1:], UNKNOWN])
def test_a_launcher_that_cannot_log_in_is_answered_with_the_cure(
    verdict: Any, lines: list[str]
) -> None:
    found = verdict([*lines, "pdsh@vs008: 10.10.0.9: ssh exited with exit code 255"])
    assert found.status == "remote_shell"
    assert "set ssh_mesh_enabled: true in the inventory and run playbooks/ssh.yml" in found.sentence
    assert any(line.endswith(found.words) for line in lines)
    assert "\n" not in found.sentence


def test_a_file_that_may_not_be_written_is_no_matter_of_ssh(verdict: Any) -> None:
    found = verdict(trace("PermissionError: [Errno 13] Permission denied: '/data/index.npy'"))
    assert found.status == "error"


def test_torchruns_own_report_is_not_the_cause(verdict: Any) -> None:
    report = [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "  exitcode  : 1 (pid: 1)",
    ]
    found = verdict([*trace("ValueError: no", prefix="[rank1]: "), *TRACE, *report])
    assert (found.status, found.words) == ("error", "ValueError: no")


def test_other_trainers_steps_are_steps_too(verdict: Any) -> None:
    error = trace("ValueError: caught")
    assert verdict([*error, libai(99, time=1.0)]).status == "ok"
    assert verdict([*error, pipe(1)]).status == "ok"


def test_every_status_has_a_sentence() -> None:
    """What stands for one, too."""
    assert all(status.says or STATUSES[status.alone].says for status in STATUSES.values())
    words = {*(word for word, _ in MEANINGS), *(rule.status or "error" for rule in RULES)}
    assert words <= set(STATUSES)


LAUNCHES = {
    "deepspeed": "[2026-04-03 10:26:17,678] [INFO] [runner.py:630:main] cmd = pdsh -S -f 1024 -w n1",
    "torchrun": "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default",
    "deepspeed on one node": "[2026-04-03 10:26:15,311] [WARNING] [runner.py:220:fetch_hostfile]"
    " Unable to find hostfile, will proceed with training with local resources only.",
    "accelerate": "The following values were not passed to `accelerate launch` and had defaults"
    " used instead:",
    "llamafactory": "[INFO|2025-04-20 04:07:48] llamafactory.cli:143 >> Initializing 8 distributed"
    " tasks at: 127.0.0.1:40435",
    "trainer": "[INFO|trainer.py:2414] 2025-04-20 04:08:53,101 >> ***** Running training *****",
    "libai": "[03/30 11:28:49] libai INFO: Rank of current process: 0. World size: 1",
    "torch_gpt": "torch_gpt config world_size=4 nodes=1 data_parallel_size=4 backend=nccl",
    "megatron": "using world size: 16, data-parallel-size: 4, tensor-model-parallel size: 4",
}
FULL = trace("OSError: [Errno 28] No space left on device: 'ckpt/mp_rank_00'")
NCCL = trace("torch.distributed.DistBackendError: NCCL error in: x.cpp:230, unhandled cuda error")


@pytest.mark.parametrize("before", [[], STEPS])
@pytest.mark.parametrize("launch", LAUNCHES.values(), ids=LAUNCHES)
def test_of_several_launches_in_one_file_the_last_ones_failure_is_told(
    verdict: Any, launch: str, before: list[str]
) -> None:
    """The first launch's was."""
    found = verdict([launch, *before, *FULL, launch, *NCCL])
    assert (found.status, found.line) == ("collective_error", len(before) + 10)
    assert verdict([launch, *FULL, launch, *NCCL, launch, *STEPS]).status == "ok"


def test_one_launch_may_be_announced_by_several(verdict: Any) -> None:
    """By its launcher, its trainer, and each node's; what fails between them is of it."""
    deepspeed, torchrun, *_, megatron = LAUNCHES.values()
    assert verdict([deepspeed, *FULL, megatron]).status == "disk_full"
    hosts = [f"{host}: {torchrun}" for host in ("n1", "n2")]
    assert verdict([hosts[0], *FULL, hosts[1], f"n1: {megatron}"]).status == "disk_full"


def test_another_launcher_announces_another_launch(verdict: Any) -> None:
    deepspeed, torchrun, *_, megatron = LAUNCHES.values()
    for first, second in ((deepspeed, torchrun), (torchrun, deepspeed), (megatron, torchrun)):
        assert verdict([first, *FULL, second, *NCCL]).status == "collective_error"


def test_a_last_launch_without_a_step_or_a_word_is_not_ok(verdict: Any) -> None:
    words = LAUNCHES["deepspeed"]
    found = verdict([words, *STEPS, *FULL, words])
    assert (found.status, found.path) == ("no_step", None)
    assert "the last launch" in found.sentence
    assert "of the launch before: the disk was full: OSError" in found.sentence
    assert verdict([words, *FULL, words]).status == "no_step"
    assert "launch" not in verdict([words, *FULL, words, *STEPS, words]).sentence.partition(";")[2]
    assert verdict([words, *FULL, words], STEPS).status == "ok"  # another node's log has its steps
    stamped = [f"2026-04-03T10:26:1{second}.678Z {words}" for second in (1, 2)]
    assert verdict([stamped[0], *FULL, stamped[1], *NCCL]).status == "collective_error"
    ended = "[2026-04-03 10:34:55] [INFO] [launch.py:367:main] Process 2382009 exits successfully."
    assert verdict([words, *STEPS, words, ended]).status == "ok"


@pytest.mark.parametrize(
    ("check", "status"),
    [
        ("ncclCommInitRank(&comm, 8, id, 0) : unhandled system error (2)", "collective_error"),
        ("HcclCommInitRootInfo(8, &id, 0, &comm) : 4", "collective_error"),
        ("cudaStreamSynchronize(s) : an illegal memory access (700)", "device_error"),
        ("cudaMalloc(&p, n) : out of memory (2)", "out_of_memory"),
        ("num_nodes > 0 (0 vs. 0)", "assertion"),
    ],
)
def test_a_failed_check_of_oneflow_is_of_what_it_called(
    verdict: Any, check: str, status: str
) -> None:
    line = f"F20220802 12:39:32.804811 201821 eager_nccl_comm_manager.cpp:81] Check failed: {check}"
    assert verdict([line]).status == status


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    "message",
    ["RendezvousTimeoutError: ", "RendezvousConnectionError: The connection to the C10d store has"],
)
def test_torchruns_error_file_is_read(verdict: Any, message: str, indent: int | None) -> None:
    """By itself it is one line; in a log (pytorch issue 67547) it is indented."""
    stack = 'Traceback (most recent call last):\n  File "run.py", line 345, in main\n    run()\n'
    extra = {"py_callstack": stack, "timestamp": "1635500000"}
    text = json.dumps({"message": {"message": message, "extraInfo": extra}}, indent=indent)
    logger = "ERROR:torch.distributed.elastic.multiprocessing.errors.error_handler:"
    found = verdict(((logger if indent else "") + text).split("\n"))
    assert (found.status, found.words) == ("rendezvous", message.strip())
    assert not verdict(['"message": "all is well"', '{"message": "done: 3 errors"}']).path


def test_the_traceback_in_torchruns_own_report_is_read(verdict: Any) -> None:
    """It is indented (torch 2.13 distributed/elastic/multiprocessing/errors/__init__.py:294)."""
    exception = "FileNotFoundError: [Errno 2] No such file or directory: 'vocab.json'"
    report = ["  exitcode  : 1 (pid: 122)", f"  traceback : {TRACE[0]}"]
    report += [f"  {line}" for line in (*TRACE[1:], exception, "", "=" * 60)]
    found = verdict(["failed (exitcode: 1) local_rank: 0 (pid: 122) of binary: python3", *report])
    assert (found.status, found.line, found.words.strip()) == ("missing_file", 6, exception)


@pytest.mark.parametrize(
    "line",
    [
        "train.sh: line 12: NNODES: unbound variable",
        "/bin/bash: line 1: MASTER_ADDR: parameter null or not set",
        "train.sh: 3: NNODES: parameter not set",
        "train.sh:3: NNODES: parameter not set",
        "launch.sh: line 8: syntax error near unexpected token `fi'",
        "launch.sh: 4: Syntax error: end of file unexpected",
        "launch.sh: line 40: unexpected EOF while looking for matching `\"'",
        "run.sh: line 5: ${A.B}: bad substitution",
        "bash: ./train.sh: Permission denied",
        "train.sh: line 9: /opt/x/launch: Permission denied",
        "bash: ./train.sh: /bin/bsh: bad interpreter: No such file or directory",
    ],
)
def test_a_shells_error_explains_a_run_without_a_step(verdict: Any, line: str) -> None:
    found = verdict(["+ echo start", line])
    assert (found.status, found.line) == ("shell_error", 2)
    assert line in found.sentence
    assert verdict([line, *STEPS, line]).status == "ok"


def test_a_program_that_may_not_read_a_file_is_no_shells_error(verdict: Any) -> None:
    assert verdict(["find: '/root': Permission denied", "cat: /x: Permission denied"]).status == (
        "no_step"
    )
    dash = verdict(["/bin/sh: 1: ./train.sh: Permission denied"])
    assert dash.status == verdict(["/bin/bash: ./a.sh: Permission denied"]).status == "shell_error"


def test_a_traceback_that_is_cut_off_is_named(verdict: Any) -> None:
    for prefix in ("", "[rank3]: "):
        found = verdict([*STEPS, *(prefix + line for line in TRACE)])
        assert (found.status, found.line) == ("error", 6)
        assert "a traceback that is cut off behind main()" in found.sentence
    assert verdict([*STEPS, TRACE[0]]).line == 4
    assert verdict([*TRACE, "ValueError: x"]).words == "ValueError: x"
    assert verdict([*TRACE, *STEPS]).status == "ok"
    assert verdict(["Exception ignored in: <f>", *TRACE]).status == "no_step"
    assert verdict([*TRACE, *FULL]).status == "disk_full"


# Lines that look like frames of an open traceback, and say something else.
TRACEBACK = (b"Traceback (most recent call last):", b'  File "train.py", line 3', b"    main()")


def judge() -> LineJudge:
    line_judge = LineJudge()
    for line in TRACEBACK:
        assert line_judge.feed(0, b"", line) is None
    return line_judge


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"  worker ended with exit code 134", "aborted"),
        (b"  worker 3 finished with exit code 137", "killed"),
        (b"  worker ended with exit code 139", "segfault"),
        (b"  worker ended with exit code 143", "terminated"),
        (b"  JOB 7 CANCELLED DUE TO NODE FAILURE", "node_lost"),
        (b"  DUE TO NODE FAILURE", "node_lost"),
        (b"  n2 was not reachable via ssh", "remote_shell"),
        (b"  pdsh is not installed", "remote_shell"),
        (b'  "message": "StopIteration: "', "error"),
        (b'  "message": "subprocess.TimeoutExpired: x"', "process_failed"),
    ],
)
def test_evidence_among_frames_is_seen(line: bytes, status: str) -> None:
    said = judge().feed(1, b"", line)
    assert said is not None
    assert said.status == status


@pytest.mark.parametrize("line", [b'    "py_callstack": "x"', b"    return f(x)"])
def test_the_last_frame_is_what_a_traceback_is_cut_off_behind(line: bytes) -> None:
    line_judge = judge()
    assert line_judge.feed(0, b"", line) is None
    (last_line,) = line_judge.cut_off().values()
    assert last_line[1] == (b"return f(x)" if b"return" in line else b"main()")
