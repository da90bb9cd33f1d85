"""What the files of a run's folder are called on its node; some keep their names at home."""

NODES = "nodes"  # the folder of a run's nodes, one each

HOSTNAME = "{hostname}"  # in a path that is asked about: this node's
LOCK = "lock-%s"  # of the node with that name: beside all runs' folders, and not in one

PROGRAMS = ".programs"  # beside all runs' folders: the supervisor's modules, for the next run

JOB = "job.json"
STATE = "state.json"
LEASE = "lease"
GO = "go"
STOP = "stop"
OVER = "over"
RESERVE = "reserve"
FETCHED = "fetched"
ASKED = "asked"  # since when a run is told to end
TROUBLE = "supervisor.log"
SAMPLER_TROUBLE = "sampler.log"

# These come home.
LOG = "launcher.log"
DONE = "done.json"
SAMPLES = "samples.csv"
SAMPLES_NOW = "samples.now"  # their newest rows, where the node keeps them on its own disk
ARRIVALS = "arrivals"  # when the log had how many bytes: node/arrivals.py
PACKED = "samples.zip"  # samples and arrivals of a node, as it brings them; then those of all nodes
STACKS = "stacks.txt"
BROUGHT = (LOG, SAMPLES, ARRIVALS, STACKS)  # a file each, which the control node may ask for
EVENTS = "tensorboard"  # a folder that trainers write event files into
TRACES = "profile"  # a folder that profilers write traces into
NSYS_REPORT = ".nsys-rep"  # the end of a name: nsys' own, beside it
PREPARED = "prepared"  # that it was ready to begin, and what it noted then
SETUP_LOG = "setup.log"  # what the lines of slurm_setup and slurm_teardown printed
FAULTS = "faults"  # in the folder of a repeat's checkpoints: a file for each that was or is due
STARTED = "started.json"  # what ran, where only the job knew it

# Of the run, where its nodes share a folder.
RUN = "run.json"
ORDERS = "orders"  # the same, a line for each node
SUBMITTED = "slurm.json"  # the job that it was handed over as
HALT = "halt"  # first cause, host and time; created exclusively, ends the run
ROSTER = "roster"  # a file for each node that has come, and one for each that has ended
PLACEMENT = "placement.json"
MEETING = "meeting.json"  # of it what most nodes need: where node rank 0 is reached
ENDED = "ended"  # every node has said how it ended


def is_trace(name: str) -> bool:
    """Whether a path in a run's folder is a profiler's trace."""
    if name.startswith(TRACES + "/"):
        return name.endswith((".json", ".json.gz", NSYS_REPORT))
    return "/" not in name and name.endswith(NSYS_REPORT)


def node(rank: int, host: str) -> str:
    """Return the folder of one node in its run's, such as nodes/0000-n1."""
    return "%s/%04d-%s" % (NODES, rank, host)
