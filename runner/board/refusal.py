"""Why a board refuses a bundle, and what it cannot detect. Data: the documents are written from it.

A reason is added here, and its check in `every_check.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

REASONS: Mapping[str, str] = {
    "too_large": "it is larger than a board takes, packed or unpacked",
    "damaged": "it is not a whole archive: cut, changed without its manifest, or with a link or a"
    " path that leads out",
    "not_a_bundle": "`publish` did not write it: publication.json, README.md or manifest.json is"
    " missing",
    "edited": "a file that is made of the logs (tables, README.md, report) is not what this version"
    " makes of them",
    "figures": "a figure of its table does not follow from its logs",
    "outcome": "a run's recorded end does not follow from its logs and its nodes' records",
    "incomplete": "a cell or repeat did not run, or a log, a record of the nodes or a run's plan"
    " is missing",
    "not_publishable": "a cell is not publishable (docs/measures.md): above the device's peak, NaN,"
    " another loss than its baseline, too few steps or repeats, throttled, imported, ...",
    "unknown_entity": "it does not name who publishes it",
    "redacted": "what a reader needs was taken out: the device, its driver, the commands, or what"
    " was installed",
    "impossible_speed": "the model's arithmetic at that speed is more than the device can do, or"
    " nobody can tell since the model is not known",
    "impossible_time": "its steps take less time than passed while the log grew, or more than the"
    " run lasted",
    "impossible_memory": "it used more memory than the device has",
    "impossible_loss": "a loss below 0, the same loss at every step, steps without a loss among"
    " others, or a first loss that no model with random weights has",
    "other_work": "the command or the log names another sequence length, batch, model, seed or"
    " number of steps than the cell",
    "chosen_runs": "a run that ended well was run again, and only the last one counts",
    "copied_runs": "two runs have the same figures in every step",
    "duplicate": "the board has these runs already",
    "future": "a run began later than now",
    "other_change": "the pull request changes something else than new bundles",
}

NOT_DETECTED = (
    "Everything in a bundle was written on its author's machines. A consistent forgery, whose logs,"
    " polls, samples and figures agree, passes. Only a rerun by somebody else tells.",
    "Who the entity is. The name is the author's own claim; the pull request shows an account.",
    "Whether the device is what its driver says, and whether its clocks or power limit were changed"
    " between samples.",
    "Campaigns and attempts that were deleted, so that the best of many was published.",
    "Changes to a trainer below what its fingerprint covers, and data that has the right checksum"
    " on paper only.",
    "Whether a loss that falls comes from training: a program can print any curve.",
    "Text inside the plots of the report that a bundle contains. The board's own pages are drawn"
    " again from the logs.",
    "A pull request that changes the workflow or requirements.txt can make its own check pass."
    " Nothing secret is there to be taken, and the site is checked again after the merge. Read the"
    " list of changed files before you merge.",
)


@dataclass(frozen=True)
class Refusal:
    """One reason against a bundle: a code of REASONS, and why it holds here."""

    code: str
    why: str
