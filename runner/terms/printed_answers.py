"""What commands print with `--format json`, where no other noun of terms/ or figures is printed.

Their JSON schemas are written from these (tools/site/schemas.py). A field keeps its name
and meaning until `schema` has a new number (docs/compatibility.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Schema = Literal[1]
State = Literal["ok", "changed", "failed", "unreachable", "refused"]  # refused: its input is wrong
HowItEnded = Literal["done", "failed", "interrupted"]
STEPS = "TRAINBENCH_STEPS"  # the variable that names the file of plugins/steps.py


@dataclass(frozen=True, kw_only=True)
class ErrorAnswer:
    """Why a command refused to begin, in sentences that name the cure; any command's."""

    error: tuple[str, ...]
    exit_code: int  # the process's own
    schema: Schema = 1


@dataclass(frozen=True, kw_only=True)
class EnrolledNode:
    """A node of an inventory that was written."""

    host: str
    address: str
    devices: int


@dataclass(frozen=True, kw_only=True)
class InitAnswer:
    """The inventory that `init` wrote."""

    inventory: str  # its folder
    device: str  # cuda, npu or cpu
    nodes: tuple[EnrolledNode, ...]
    notes: tuple[str, ...]  # lines for a person
    schema: Schema = 1


@dataclass(frozen=True, kw_only=True)
class StepOnHost:
    """What one step of a playbook came to on one node."""

    step: str
    host: str
    state: State = "ok"
    changes: int = 0
    took_s: float = 0.0
    why: str = ""  # Ansible's words on it, of any length up to its own limit


@dataclass(frozen=True, kw_only=True)
class PlaybookAnswer:
    """How `setup`, `verify` or `teardown` ended on each node."""

    command: str
    inventory: str
    check: bool  # whether nothing was to be changed
    ended: HowItEnded
    changes: int
    failed: Mapping[str, str]  # host to the step that failed there
    steps: tuple[StepOnHost, ...]
    took_s: float
    log: str  # Ansible's output
    exit_code: int
    schema: Schema = 1


@dataclass(frozen=True, kw_only=True)
class DetachedAnswer:
    """Where a campaign goes on after `bench --detach`."""

    campaign: str
    process: int  # its id on this machine
    lines: str  # the file of what bench prints
    runs: str  # folder of the campaigns
    schema: Schema = 1


@dataclass(frozen=True, kw_only=True)
class ScriptAnswer:
    """What `bench --dry-run --script` prints."""

    cell: str
    script: str
    schema: Schema = 1


@dataclass(frozen=True, kw_only=True)
class StopAnswer:
    """What `stop` ended, in sentences, and the campaigns that go on with their next cell."""

    ended: tuple[str, ...]
    go_on: tuple[str, ...]
    schema: Schema = 1


@dataclass(frozen=True, kw_only=True)
class ExportAnswer:
    """What `export` wrote."""

    path: str
    bytes: int
    left_out: tuple[str, ...]  # files with names that no archive can hold
    hidden: str  # what the matrix no longer names; "" where there is nothing
    schema: Schema = 1


@dataclass(frozen=True, kw_only=True)
class NotPublishable:
    """A cell that is not publishable: its codes to why (docs/measures.md)."""

    cell: str
    why: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class PublishAnswer:
    """What `publish` wrote, or the cells for which it wrote nothing."""

    path: str | None
    bytes: int | None
    sha256: str | None
    readme_name: str | None  # that torchtitan's benchmarks folder wants
    readme: str | None  # with --readme
    not_publishable: tuple[NotPublishable, ...]
    schema: Schema = 1


Of = Literal["table", "outcome", "speed", "time", "memory", "loss"]


@dataclass(frozen=True, kw_only=True)
class CheckFinding:
    """What in a bundle does not follow from its logs, or cannot be, and why."""

    of: Of
    why: str


@dataclass(frozen=True, kw_only=True)
class PublishCheckAnswer:
    """What `publish --check` found in a bundle."""

    campaign: str
    entity: str  # who published it, by its own words; "" where it does not say
    cells: int
    findings: tuple[CheckFinding, ...]
    schema: Schema = 1


@dataclass(frozen=True, kw_only=True)
class ImportedRun:
    """A run that was made of logs."""

    logs: tuple[str, ...]
    cell: str
    repeat: int
    status: str
    reason: str
    logged_lines: int


@dataclass(frozen=True, kw_only=True)
class ImportAnswer:
    """What `import` made."""

    campaign: str
    runs: tuple[ImportedRun, ...]
    schema: Schema = 1


@dataclass(frozen=True, kw_only=True)
class SystemKey:
    """A key of a cell: its default, and in words what it may be."""

    name: str
    default: Any
    may_be: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class SystemEntry:
    """A trainer that can be benchmarked; `keys` only of the one that was asked for."""

    name: str
    summary: str
    launcher: str
    pins: tuple[str, ...]
    historic: bool  # reproduces a documented benchmark
    keys: tuple[SystemKey, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SystemsAnswer:
    """What `systems` lists."""

    systems: tuple[SystemEntry, ...]
    schema: Schema = 1


@dataclass(frozen=True, kw_only=True)
class ShippedMatrix:
    """A matrix that comes with TrainBench."""

    path: str
    about: str


@dataclass(frozen=True, kw_only=True)
class MatricesAnswer:
    """What `matrices` lists, or the copy that it made."""

    matrices: tuple[ShippedMatrix, ...]
    copied: str | None = None
    schema: Schema = 1


@dataclass(frozen=True, kw_only=True)
class DocsPage:
    """A page of the documents."""

    page: str
    title: str


@dataclass(frozen=True, kw_only=True)
class DocsAnswer:
    """What `docs` lists, or one page's text."""

    folder: str
    pages: tuple[DocsPage, ...]
    text: str | None = None
    schema: Schema = 1


@dataclass(frozen=True, kw_only=True)
class CompletionAnswer:
    """A shell's script of completions."""

    shell: str
    script: str
    schema: Schema = 1


@dataclass(frozen=True, kw_only=True)
class AboutAnswer:
    """What a report of a bug needs; without names, addresses, paths or commands."""

    trainbench: str
    python: str
    system: str
    libraries: Mapping[str, str]
    inventory: str  # its size in words; "" where none was named
    last_campaign: Mapping[str, int] = field(default_factory=dict)  # how runs ended, to how many
    schema: Schema = 1


# Each by the name of its schema.
ANSWERS: Mapping[str, type] = {
    "about": AboutAnswer,
    "bench_detached": DetachedAnswer,
    "bench_script": ScriptAnswer,
    "completion": CompletionAnswer,
    "docs": DocsAnswer,
    "error": ErrorAnswer,
    "export": ExportAnswer,
    "import": ImportAnswer,
    "init": InitAnswer,
    "matrices": MatricesAnswer,
    "playbook": PlaybookAnswer,
    "publish": PublishAnswer,
    "publish_check": PublishCheckAnswer,
    "stop": StopAnswer,
    "systems": SystemsAnswer,
}
