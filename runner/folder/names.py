"""What the files of a campaign are called, each once: for bench, the launch plugin and readers.

    runs/<campaign>/campaign.json  events.jsonl  lock  bench.log  relied.json  .switches.json
                    answer.json  winner.yaml
      inspect/<host>.json
      <cell>-<hash8>/repeat<K>/attempt<N>/
          run.json  launch.sh  halt  queue.json  products.json  outcome.json
          job.sh (in place of launch.sh)  submitted.sh  slurm.json  slurm.out  orders  roster/
          meeting.json  placement.json  ended  lease
          nodes/<rank>-<host>/  launcher.log  arrivals  prepared  done.json  samples.csv
                                started.json  setup.log  stacks.txt  tensorboard/
                                samples.now  samples.zip  timeline.jsonl (older campaigns)
          samples.zip
    runs/.ansible/               private folders of ansible-runner, removed on success
    runs/.setup/                 <inventory>-setup.log, -verify, -teardown
    runs/.accept/<inventory>/<N>/  state.json  answer.json  report.html  junit.xml  healthy.txt
                                 failing.txt, and all that a checkup has
    runs/.tune/<inventory>/      machine.json
    runs/.doctor/<inventory>/    asked.json  env/<host>.json  products.json  lock
                                 probe<N>/ (as an attempt, above)

The standard library alone, as the launch plugin and roles/verify import this. docs/runs.md explains
the files.
"""

# As they are on the node, which may share the folder.
from node.supervisor.names import (
    ARRIVALS,
    DONE,
    ENDED,
    EVENTS,
    HALT,
    LOG,
    NODES,
    PACKED,
    PLACEMENT,
    PREPARED,
    ROSTER,
    RUN,
    SAMPLES,
    SAMPLES_NOW,
    STACKS,
    STARTED,
    SUBMITTED,
    node,
)

__all__ = [
    "ARRIVALS",
    "DONE",
    "ENDED",
    "EVENTS",
    "HALT",
    "LOG",
    "NODES",
    "PACKED",
    "PLACEMENT",
    "PREPARED",
    "ROSTER",
    "RUN",
    "SAMPLES",
    "SAMPLES_NOW",
    "STACKS",
    "STARTED",
    "SUBMITTED",
    "node",
]

# Of a folder of runs.
ANSIBLE = ".ansible"
DOCTOR = ".doctor"
ACCEPT = ".accept"
SETUP = ".setup"
TUNE = ".tune"

# Of a campaign.
CAMPAIGN = "campaign.json"
LOCK = "lock"
HAPPENED = "events.jsonl"
LINES = "bench.log"  # what `bench --detach` printed
INSPECTED = "inspect"
RELIED = "relied.json"  # the files of a trainer's own folder
ALLOCATION = ".allocation"  # the job whose nodes its runs have, one after the other
SWITCHES = ".switches.json"  # the hosts of each leaf switch, by which jobs order their ranks
TRIAL = "trial.sh"  # for sbatch --test-only, for an instant
ANSWER = "answer.json"  # what a study found so far
WINNER = "winner.yaml"  # of a search, as a matrix
MACHINE = "machine.json"  # of a folder in TUNE
PUBLISHED = "publication.json"  # of a bundle that `publish` wrote, who and what it is
PROGRAMS = "programs"  # what runs on the nodes of its jobs
ATTEMPTS = "*/repeat*/attempt*"

# Of a run.
SUBMIT_SCRIPT = "submitted.sh"  # until today job.sh
SUBMIT_OUTPUT = "slurm.out"
SCRIPT = "launch.sh"
JOB_SCRIPT = "job.sh"  # in its place, for sbatch
QUEUE = "queue.json"  # where it stands in it
OUTCOME = "outcome.json"
PRODUCTS = "products.json"  # of a checkup, too

# Of one node of a run.
TIMELINE = "timeline.jsonl"  # of an older campaign: what polls saw of the log
PART = "launcher.log.part"  # while what the polls left of the log is brought

# Of an acceptance.
STATE = "state.json"

# Of a checkup.
ASKED = "asked.json"
ENVS = "env"


def attempt(repeat: int, number: int) -> str:
    """Return the folder of one run in its cell's."""
    return f"repeat{repeat}/attempt{number}"


def of_host(host: str) -> str:
    """Return the file of what a host said of itself, in INSPECTED or ENVS."""
    return f"{host}.json"
