"""What makes a line evidence, what begins and ends the parts of a log. causes.py has the words."""

import re
from dataclasses import dataclass

from runner.logs.kinds import every
from runner.results.diagnosis.causes import any_of
from runner.terms.container_engines import REFUSALS


@dataclass(frozen=True)
class Rule:
    """A line that is evidence by itself. `status` None: by the meaning of what follows it.

    `start`: it can only end a run before its first step, and where something else is evidence too,
    that counts: a shell's line about another program, say.
    """

    status: str | None
    pattern: re.Pattern[bytes]
    start: bool = False


def _rule(status: str | None, *patterns: bytes, start: bool = False) -> Rule:
    return Rule(status, any_of(*patterns), start)


RULES: tuple[Rule, ...] = (
    _rule("time_limit", rb"CANCELLED AT \S+ DUE TO TIME LIMIT", rb"timeout: sending signal"),
    _rule(
        "time_limit",
        rb"TERM_RUNLIMIT",
        rb"[Ww]all ?time .{0,200}exceeded|exceeded .{0,200}[Ww]all ?time",
    ),
    _rule("out_of_memory", rb"[Oo]ut of memory: Kill", rb"oom[-_]kill(?:ed)? (?:event|proc)"),
    _rule("out_of_memory", rb"Detected \d+ oom[-_]kill", rb"tasks? [\d,-]+: Out Of Memory"),
    _rule("out_of_memory", rb"Exceeded (?:job|step) memory limit"),
    # The kernel's and NVIDIA's words of hardware: docs.nvidia.com/deploy/xid-errors, of which those
    # that a program may cause (13, 31, 43, 45) are left out. ROCm's runtime, of a fault and a hang.
    _rule(
        "device_error",
        rb"NVRM: Xid \([^)]{1,80}\): (?:48|62|64|74|79|92|95|110|119|120|143|154)\b",
        rb"GPU has fallen off the bus|nvidia-nvswitch\d+: SXid",
        rb"Memory access fault by GPU|HW Exception by GPU|HSA_STATUS_ERROR_\w+",
    ),
    _rule("collective_error", rb"NET/IB ?: .{0,200}Got completion .{0,200}(?:error|status=)"),
    # C's assert as glibc and macOS write it; CUDA's own closes with a grave accent.
    _rule("assertion", rb"^\S.{0,400}:\d+: .{0,400}Assertion `.{1,400}' failed\."),
    _rule("assertion", rb"^Assertion failed: \(.{1,400}\), function .{1,200}, file "),
    # llm.c (llmc/cublas_common.h:37, llmc/utils.h); its errors of two lines: line_judge.py.
    _rule(None, rb"^\[cuBLAS ERROR\]: \d", rb"^Error: Failed to open file '"),
    _rule(None, rb"^Error: Memory allocation failed at "),
    _rule("node_lost", rb"DUE TO NODE FAILURE", rb"srun: error: Node failure on"),
    _rule("cancelled", rb"error: \*\*\* (?:STEP|JOB) .{0,200}CANCELLED"),
    # ssh's own lines, and DeepSpeed's where it looks before it starts anything
    _rule("remote_shell", rb"Permission denied(?: \([a-z-]+[,)]|, please try again)"),
    _rule("remote_shell", rb"Host key verification failed", rb"was not reachable via ssh"),
    _rule("remote_shell", rb"pdsh: (?:command )?not found", rb"'?pdsh'?(?: is)? not installed"),
    _rule("remote_shell", rb"No such file or directory: '(?:\S*/)?pdsh'"),
    _rule("missing_compiler", rb": fatal error: Python\.h: No such file or directory$"),
    _rule(None, rb"[Ww]atchdog caught collective operation timeout"),
    _rule(None, rb"watchdog got stuck for", rb"watchdog thread terminated with exception:"),
    _rule(None, rb"\[c10d\].{0,200}client socket has (?:timed out|failed)"),
    _rule(None, rb"^E[A-Z]\d{4}: |^EL0004", rb"ExceptionType:\["),
    _rule(None, rb"^F\d{4,8} \d\d:\d\d:\d\d.*\] ?Check failed", rb"(?:^|\s)what\(\): "),
    _rule(None, rb": No space left on device$"),
    _rule("segfault", rb"(?:^|\d )Segmentation fault\b", rb"^Fatal Python error: (?:S|B)\w+"),
    _rule("segfault", rb"Segmentation fault(?: \(core dumped\))?\s*$", rb"signal 11 \(Segm"),
    _rule("segfault", rb"(?:exitcode\s*:|return code =) ?-(?:11|7)\b", rb"exit code 139\b"),
    _rule("segfault", rb"(?:Signal \d+ \(|<Signals\.)SIG(?:SEGV|BUS)"),
    _rule("segfault", rb"^\*\*\* SIG(?:SEGV|BUS) \(@"),  # glog's handler
    _rule("segfault", rb"(?:^|\d )Bus error\b", rb"Bus error \(core dumped\)\s*$"),
    _rule("aborted", rb"(?:exitcode\s*:|return code =) ?-6\b", rb"exit code 134\b"),
    _rule("aborted", rb"(?:Signal 6 \(|<Signals\.)SIGABRT", rb"signal 6 \(Abort"),
    _rule(
        "aborted", rb"^Fatal Python error: A\w+", rb"(?:^|\d |: )Aborted\b.{0,200}\(core dumped\)"
    ),
    _rule("aborted", rb"^\*\*\* SIGABRT \(@"),
    _rule(
        "killed",
        rb"(?:^|(?<=\]))\s{0,200}Killed\s*$",  # also behind tqdm's bar
    ),
    _rule("killed", rb"line \d+: +\d+ Killed\b", rb"^\S+(?: \d*)? Killed +\S"),
    _rule("killed", rb"(?:exitcode\s*:|return code =) ?-9\b", rb"tasks? [\d,-]+: Killed$"),
    _rule("killed", rb"(?:Signal 9 \(|<Signals\.)SIGKILL", rb"signal 9 \(Kill"),
    _rule("killed", rb"exit code 137\b"),
    _rule("terminated", rb"(?:exitcode\s*:|return code =) ?-15\b", rb"exit code 143\b"),
    _rule("terminated", rb"Signal 15 \(SIGTERM\)", rb"tasks? [\d,-]+: Terminated\s*$"),
    _rule("process_failed", rb"exits with return code = (?!0$)-?\d+$"),
    _rule("process_failed", rb"failed \(exitcode: (?!0\))", rb"tasks? [\d,-]+: Exited with exit"),
    _rule("process_failed", rb"ssh exited with exit code (?!0$)\d+$"),
    _rule("terminated", rb"Main process received SIG(?:TERM|INT)", rb"^Terminated\s*$"),
    _rule("terminated", rb"Received (?:Signals\.SIG(?:TERM|HUP)|1|15) death signal"),  # torchrun
    _rule("terminated", rb"exiting program after receiving SIG[A-Z]{3,4}\b"),  # Megatron's
    _rule("error", rb"^[\w./-]+\.py: error: ", start=True),
    _rule(  # tyro's boxes (torchtitan's options): a line of the box, else its title
        "error",
        "^│ +Unrecognized (?:or misspelled )?(?:options|arguments): ".encode(),
        "^╭─+ (?:Parsing error|Required options) ─".encode(),
        start=True,
    ),
    _rule(  # hydra's (NeMo), click's and jsonargparse's (litgpt) of an option that there is not
        "error",
        rb"^Could not override '|^error: (?:Unrecognized arguments|Parser key )",
        rb"^Error: (?:No such option|Invalid value for|Missing (?:option|argument))\b",
        start=True,
    ),
    # Launchers before their first command: their options, Slurm's steps, Open MPI's slots, images.
    _rule(
        "launcher_error",
        rb"^(?:torchrun|deepspeed|accelerate[\w <>|-]{0,80}|mpirun|mpiexec): error: ",
    ),
    _rule(
        "launcher_error",
        rb"^srun: (?:fatal: |error: Unable to (?:create step|allocate resources|confirm))",
        rb"^srun: error: (?:Task launch for|Application launch failed)",
        rb"\b(?:ORTE|PRTE|PRRTE) was unable to reliably start",
        rb"\b(?:ORTE|PRTE) (?:daemon has unexpectedly failed|does not know how to route)",
        rb"error: execve\(\): |^sbatch: error: Batch job submission",
    ),
    _rule(
        "launcher_error",
        rb"^There are not enough slots available in the system",
        rb"^(?:mpirun|mpiexec) was unable to (?:launch|find|start) ",
        *REFUSALS,
    ),
    _rule(None, rb"version `GLIBC\S* not found \(", start=True),
    _rule(None, rb": error while loading shared libraries: ", start=True),
    _rule(
        None,
        rb"^\S*python[\d.]*: (?:No module named|can't open file|Error while finding module)",
        start=True,
    ),
    _rule(None, rb": command not found$", start=True),
    _rule(
        "shell_error",  # bash's `x.sh: line 3: `, dash's `x.sh: 3: `, zsh's `x.sh:3: `
        rb"(?:: line |: ?)\d+: .{1,200}: (?:unbound variable|parameter (?:null or )?not set)$",
        rb"(?:: line |: ?)\d+: .{0,200}: (?:bad substitution|ambiguous redirect)$",
        rb"(?:: line |: ?)\d+: (?:[Ss]yntax error\b|unexpected EOF while looking)",
        rb"(?:^(?:\S{0,200}/)?(?:ba|da|k|z)?sh|: line \d+|^\S{1,200}: ?\d+): \S+: "
        rb"(?:Permission denied|cannot execute\b.{0,80})$",
        rb": bad interpreter: ",
        start=True,
    ),
)

ANY_RULE = any_of(*(rule.pattern.pattern for rule in RULES))
# One search decides whether a line is looked at more closely.
CANDIDATE = any_of(
    rb"Traceback \(most recent|Exception ignored in|--- Logging error",
    rb"(?:Error|Exception|Interrupt|Exit|Timeout|Failure)\b(?: ?:|\s*$)| error: ",
    rb"[Oo]ut [Oo]f [Mm]emory|oom[-_]kill|No space left|RUNLIMIT|[Ww]all ?time",
    rb"CANCELLED|sending signal|Terminated|Killed|received SIG|SIG[A-Z]{1,12}\b|signal 11",
    rb"[Ww]atchdog caught|client socket has|E[A-Z]\d{4}: |EL0004|ExceptionType|NCCL WARN",
    rb"NVRM: Xid|fallen off the bus|SXid|by GPU|HSA_STATUS|Got completion|ORTE|PRTE",
    rb"Check failed|what\(\): |Segmentation fault|Fatal Python|Bus error|Aborted|signal [69] ",
    rb"watchdog (?:got stuck|thread term)|Node failure|memory limit|: command not found",
    rb"version `GLIBC|error while loading|No module named|can't open file|finding module spec",
    rb"exitcode|return code = |[Ee]xit(?:ed)? with exit|exit code 1[34]\d",
    rb"DUE TO NODE FAILURE|not reachable via ssh|pdsh'?(?: is)? not installed",
    rb"of the above exception|direct cause of the following|_run_exitfuncs|Exception in thread",
    rb"\bProcess \S+:\s*$",
    rb"Permission denied(?: \(|, )|Host key verification failed|pdsh: (?:command )?not found",
    rb": unbound variable|not set$|bad substitution|ambiguous redirect|yntax error|unexpected EOF",
    rb": Permission denied$|: cannot execute|bad interpreter",
    rb"death signal|^Could not override|^error: |^Error: ",
    rb" ERROR\]|Assertion |Failed to open|allocation failed|disk space|enough slots",
    "│ +Unrecognized |(?:Parsing error|Required options) ─".encode(),
    rb"^srun: |execve|^sbatch: |was unable to",
    *REFUSALS,
    *every("error"),
)
# The last line of a traceback: a class that is named like one, or any class with its module.
EXCEPTION = re.compile(
    rb"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Iteration|Timeout|Failure)"
    rb"(?=:|\s*$)|^(?:[A-Za-z_]\w*\.)+[A-Z]\w*(?=:|\s*$)"
    rb"|^(?:Base)?Exception(?:Group)?(?=:|\s*$)"
    # struct.error, socket.gaierror
    rb"|^(?:[A-Za-z_]\w*\.)+(?:[a-z]\w*)?(?:error|exception|timeout)(?=:|\s*$)"
)
# An exception group's traceback (PEP 654): what it holds is indented, behind a bar.
IN_GROUP = re.compile(rb"^\s*\+ Exception Group Traceback")
GROUP = re.compile(rb"^(?:Base)?ExceptionGroup: ")
GROUPED = re.compile(rb"^\s*(?:\| ?|\+-\+-+ \d+ -+$|\+-+$)")
BAR = re.compile(rb"\d%\|")  # tqdm's
# Lines of an exception's own words: torch's NCCL errors, and DCP's, with a traceback of each rank.
LAST_ERROR = b"Last error:"
OF_RANK = re.compile(rb"\(RANK \d{1,9}\)$")
# A traceback that follows is one that ended nothing.
IGNORED = re.compile(rb"^Exception ignored in|^--- Logging error ---")
# Between two tracebacks: the second came up in a handler of the first, or was made of the first.
HANDLING = re.compile(rb"^During handling of the above exception")
CAUSE = re.compile(rb"^The above exception was the direct cause")
# A traceback that follows ended a thread, a worker or an exit handler, and not the process.
ASIDE = re.compile(rb"^Exception in thread |^Error in atexit\._run_exitfuncs|^Process \S+:\s*$")
# An exception's own line where the traceback above it is lost, by its module or a trainer's words.
QUALIFIED = re.compile(
    rb"^(?:(?:[A-Za-z_]\w*\.)+[A-Z]\w*(?:Error|Exception)(?=:)|%b)" % b"|".join(every("error"))
)
# The same without its module: it counts where it means something or a traceback was seen.
BARE = re.compile(rb"^(?:\w*Error|KeyboardInterrupt)(?=: |\s*$)")
# torchrun's error file, by itself or in a log: `"message": "RendezvousTimeoutError: ",` is an
# exception that nobody caught; its traceback is on one line, as JSON (torch 2.13 distributed/
# elastic/multiprocessing/errors/error_handler.py:76-88; in a log: pytorch issue 67547).
ERROR_FILE = re.compile(rb'^(?:.{0,200}\{"message": \{)?\s*"message": "((?:[^"\\]|\\.){1,400})')
CALL_STACK = b'"py_callstack": "'
# LiBai's `Overall training speed` is none: it is printed after an exception, too.
SUCCESS = any_of(*every("success"))
# llm.c's error of two lines, the second says what (llmc/cuda_common.h:36, llmc/zero.cuh:35).
HEADER = re.compile(rb"^\[(?:CUDA|NCCL|MPI|CUDNN) ERROR\] at file \S{1,400}:\d{1,9}:$")
# What is printed once a launch, before its first step: by its launcher, deepspeed (0.8.0
# launcher/runner.py:548, before its hosts are checked :172), torchrun (torch 2.13
# distributed/run.py:876, launcher/api.py:198), accelerate (1.2 commands/launch.py:1130), a shell
# (set -x), Lightning (2.5 fabric/utilities/distributed.py:300) or LLaMA-Factory (v0.9.3
# llamafactory/cli.py:143), and then by its trainer, LiBai (9fc504c libai/engine/default.py:171),
# Megatron, torch_gpt, LLaMA-Factory (hparams/parser.py:423) or Hugging Face's Trainer.
LAUNCHER = any_of(
    rb"\[runner\.py:\d+:main\] cmd = ",
    rb"Setting OMP_NUM_THREADS environment variable for each process",
    rb"\[runner\.py:\d+:fetch_hostfile\] Unable to find hostfile",
    rb"The following values were not passed to `accelerate launch`",
    rb"Starting elastic_operator with launch configs|Initializing distributed: GLOBAL_RANK: 0,",
    rb"^\++ (?:exec )?(?:torchrun|deepspeed|accelerate launch|python\S* -m torch\.distributed)",
    rb"llamafactory\.\w{1,20}:\d{1,9} >> Initializing (?:\d{1,9} )?distributed tasks at",
)
TRAINER = any_of(
    rb"Rank of current process: 0\. World size: ",
    rb"using world size: \d+,? |torch_gpt config world_size=",
    rb"\bProcess rank: (?:0|-1), |\*{5} Running training \*{5}",
)
TURN = re.compile(
    b"(?P<launcher>%b)|(?P<trainer>%b)|%b" % (LAUNCHER.pattern, TRAINER.pattern, SUCCESS.pattern)
)
WARNING = re.compile(rb"NCCL WARN (.*)")
# torch_npu's exception, whose reason CANN adds in lines of its own: `EI0002: ..`.
WRAPPER = re.compile(rb"HCCL error in|NPU (?:function )?error")
REASON = re.compile(rb"^E[A-Z]\d{4}: ")
NOISE = re.compile(rb"ChildFailedError|CalledProcessError|subprocess\.|destroy_process_group")
