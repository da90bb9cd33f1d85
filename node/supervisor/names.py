"""What the files of a run's folder are called on its node; some keep their names at home."""

LOCK = "lock"  # of the node: beside all runs' folders, and not in one

JOB = "job.json"
STATE = "state.json"
LEASE = "lease"
GO = "go"
STOP = "stop"
OVER = "over"
RESERVE = "reserve"
FETCHED = "fetched"
TROUBLE = "supervisor.log"
SAMPLER_TROUBLE = "sampler.log"

# These come home.
LOG = "launcher.log"
DONE = "done.json"
SAMPLES = "samples.csv"
STACKS = "stacks.txt"
EVENTS = "tensorboard"  # a folder that trainers write event files into
