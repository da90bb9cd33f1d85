"""The JSON schemas of what commands print: docs/schemas/<name>.json of each name in `PRINTED`."""

import argparse
import json
from collections.abc import Mapping
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # ansible-lint's own dependency, not its stubs

from runner.__main__ import parser
from runner.accept.acceptance import AcceptState, NodeFault
from runner.base.dataclass_schema import shape
from runner.base.paths import PROJECT
from runner.compare.verdicts import ComparedCell
from runner.expect.conditions import Subject
from runner.expect.cost import BreakEven
from runner.expect.references import Reference
from runner.folder.hidden import Hidden
from runner.judge.log_result import LogResult
from runner.launch.campaign_status import _DRAWN, Status
from runner.terms.bisected import Bisected
from runner.terms.printed_answers import ANSWERS
from runner.terms.tuned import Tuned

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
ANY_OBJECT: Schema = {"type": "object"}
VERSION: Schema = {"const": 1}
LIMITS = ("maxLength", "maxItems", "minItems", "minimum", "maximum", "pattern")


def listed(of: Schema) -> Schema:
    """A list of such values."""
    return {"type": "array", "items": of}


def named(of: Schema) -> Schema:
    """An object whose names are not ours."""
    return {"type": "object", "additionalProperties": of}


def maybe(of: Schema) -> Schema:
    """Such a value, or null."""
    return {"anyOf": [of, {"type": "null"}]}


def keys(optional: Mapping[str, Schema] | None = None, /, **needed: Schema) -> Schema:
    """An object with these keys and no other; `optional` may be missing."""
    properties = {**needed, **(optional or {})}
    return {
        "type": "object",
        "properties": properties,
        "required": list(needed),
        "additionalProperties": False,
    }


def of(noun: Any) -> Schema:
    """A dataclass as it is printed: all its keys, without the limits of what is read."""
    return _as_printed(shape(noun).json_schema())


def _as_printed(schema: Schema) -> Schema:
    kept: Schema = {}
    for key, value in schema.items():
        if key == "properties":
            kept[key] = {name: _as_printed(each) for name, each in value.items()}
        elif isinstance(value, dict):
            kept[key] = _as_printed(value)
        elif isinstance(value, list):
            kept[key] = [_as_printed(v) if isinstance(v, dict) else v for v in value]
        elif key not in LIMITS:
            kept[key] = value
    if "properties" in kept:
        kept |= {"required": list(kept["properties"]), "additionalProperties": False}
    return kept


def with_keys(
    base: Schema, optional: Mapping[str, Schema] | None = None, /, **needed: Schema
) -> Schema:
    """An object's schema with more keys."""
    properties = {**base["properties"], **needed, **(optional or {})}
    return {**base, "properties": properties, "required": [*base["required"], *needed]}


def _status() -> Schema:
    """`Status.to_json` leaves out what only people see, and names the first run once more."""
    schema = of(Status)
    fields = schema["properties"]
    for each in (fields["runs_now"]["items"], fields["queued"]["items"]):
        for key in _DRAWN:
            each["properties"].pop(key, None)
        each["required"] = list(each["properties"])
    del fields["others"]
    schema["required"] = list(fields)
    return with_keys(schema, schema=VERSION, running=maybe(fields["runs_now"]["items"]))


def _compare() -> Schema:
    return keys(
        {"break_even": named(of(BreakEven))},
        schema=VERSION,
        a=TEXT,
        b=TEXT,
        rule=TEXT,
        thresholds_percent=named(NUMBER),
        regressions=WHOLE,
        cannot_tell=WHOLE,
        environment=listed(keys(key=TEXT, a=TEXT, b=TEXT)),
        notes=listed(TEXT),
        cells=listed(with_keys(of(ComparedCell), regressed=FLAG)),
    )


def _expect() -> Schema:
    found = keys(
        of=TEXT,
        percent=maybe(NUMBER),
        same_conditions=FLAG,
        median_tokens_per_s_per_device=maybe(NUMBER),
        differences=listed(keys(what=TEXT, here=TEXT, there=TEXT)),
        references=listed(with_keys(of(Reference), tokens_per_s_per_device=NUMBER)),
    )
    speed = keys(name=TEXT, conditions=maybe(of(Subject)), missing=TEXT, expectations=listed(found))
    return keys(schema=VERSION, speeds=listed(speed))


def _probe_result(more: Mapping[str, Schema]) -> Schema:
    figure = keys(
        nodes=listed(TEXT),
        device={"type": ["integer", "string", "null"]},
        value=maybe(NUMBER),
        noise=maybe(NUMBER),
        tries=listed(listed(NUMBER)),
        slow=FLAG,
    )
    return keys(
        test=TEXT,
        name=TEXT,
        unit=TEXT,
        reference=maybe(NUMBER),
        reason=TEXT,
        figures=listed(figure),
        **more,
    )


def _doctor() -> Schema:
    measured = keys(
        torch=maybe(TEXT),
        reason=TEXT,
        took_s=NUMBER,
        tests=listed(_probe_result({})),
        slow=listed(keys(test=TEXT, nodes=listed(TEXT), words=TEXT)),
        notes=listed(TEXT),
    )
    finding = keys(item=TEXT, severity=TEXT, nodes=listed(TEXT), value=TEXT, others=TEXT, why=TEXT)
    schema = keys(
        schema=VERSION,
        inventory=TEXT,
        at=NUMBER,
        exit_code=WHOLE,
        nodes=listed(TEXT),
        unreachable=named(TEXT),
        checks=listed({**ANY_OBJECT, "required": ["node"]}),
        findings=listed(finding),
        faults=named(listed(TEXT)),
        environment=ANY_OBJECT,
        measured=maybe(measured),
        text=TEXT,
    )
    # The key that leaves out nodes with faults is the engine's: --limit, slurm_exclude.
    return {**schema, "additionalProperties": TEXT}


def _accept() -> Schema:
    return with_keys(
        of(AcceptState),
        schema=VERSION,
        inventory=TEXT,
        exit_code=WHOLE,
        result=TEXT,
        healthy=listed(TEXT),
        failing=named(listed(of(NodeFault))),
        faults=listed(of(NodeFault)),
        untested=listed(TEXT),
        leave_out=named(TEXT),
    )


def _plan() -> Schema:
    cell = keys(
        cell=TEXT,
        id=TEXT,
        kept=WHOLE,
        new=WHOLE,
        run_s=maybe(NUMBER),
        by=TEXT,
        memory_mib=maybe(NUMBER),
    )
    return keys(
        schema=VERSION,
        campaign=TEXT,
        kept=WHOLE,
        new=WHOLE,
        hidden=of(Hidden),
        expected_s=maybe(NUMBER),
        unknown=WHOLE,
        cells=listed(cell),
        warnings=listed(TEXT),
    )


def _dry_run() -> Schema:
    node = keys(
        {"tasks": WHOLE},
        host=TEXT,
        node_rank=WHOLE,
        cwd=TEXT,
        env=named(TEXT),
        argv=listed(TEXT),
        processes=listed(listed(TEXT)),
        devices={"type": ["array", "integer"]},
        devices_idle={"type": ["array", "integer"]},
    )
    run = keys(
        {
            "setup": listed(TEXT),
            "teardown": listed(TEXT),
            "slurm": {**ANY_OBJECT, "description": "what Slurm would be given"},
            "recovery": TEXT,
            "checkpoints": TEXT,
            "checkpoint_room": keys(
                bytes=maybe(WHOLE), at_once=WHOLE, free_mib=named(WHOLE), missing=TEXT
            ),
            "faults": listed(ANY_OBJECT),
        },
        schema=VERSION,
        cell=TEXT,
        id=TEXT,
        system=TEXT,
        nodes=listed(node),
        files=named(named(TEXT)),
        seeds=listed(maybe(WHOLE)),
        train_iters=maybe(WHOLE),
        run_dir=TEXT,
        estimate=maybe(keys(memory_mib=NUMBER, time_s=NUMBER, basis=TEXT)),
    )
    return listed(run)


def _tune_plan() -> Schema:
    counts = dict.fromkeys(
        ("combinations", "legal", "ran", "short_runs", "long_runs", "earlier_measurements"), WHOLE
    )
    return keys(
        schema=VERSION,
        campaign=TEXT,
        refusals=named(WHOLE),
        expected_s=maybe(NUMBER),
        machine_measured=FLAG,
        **counts,
    )


def _answer(noun: type) -> Schema:
    schema = of(noun)
    return {**schema, "properties": {**schema["properties"], "schema": VERSION}}


_LOG = with_keys(of(LogResult), {"collective_tests": listed(ANY_OBJECT)}, schema=VERSION)
# Each name of docs/schemas, to what the schema is of and itself.
PRINTED: Mapping[str, tuple[str, Schema]] = {
    **{name: (noun.__doc__ or "", _answer(noun)) for name, noun in ANSWERS.items()},
    "accept": ("What `accept` found (docs/how-to/accept.md).", _accept()),
    "bisect": ("What `bisect` found (docs/how-to/bisect.md): bisect.json.", _answer(Bisected)),
    "ci": (
        "Whether a version is slower (docs/how-to/ci.md).",
        keys(
            schema=VERSION,
            verdict=TEXT,
            exit_code=WHOLE,
            failed=listed(TEXT),
            comparison=maybe(_compare()),
        ),
    ),
    "compare": ("Two campaigns, worst cells first (docs/runs.md).", _compare()),
    "doctor": ("What `doctor` and `verify` found (docs/doctor.md).", _doctor()),
    "dry_run": ("What each cell's first run would start, on each node.", _dry_run()),
    "expect": ("Speeds beside those of others (docs/how-to/expect.md).", _expect()),
    "parse": ("What logs say (docs/parsers.md).", _LOG),
    "parse_each": ("What each log says.", listed(with_keys(_LOG, log=TEXT))),
    "plan": ("What bench would do: kept, new, hidden; times in seconds.", _plan()),
    "status": ("How far a campaign has got (docs/runs.md).", _status()),
    "tune": (
        "What `tune` found (docs/how-to/tune.md): tune.json.",
        with_keys(of(Tuned), schema=VERSION),
    ),
    "tune_plan": ("What `tune` would run; times in seconds.", _tune_plan()),
}


def subcommands() -> Mapping[str, argparse.ArgumentParser]:
    """Every command's parser, by its name."""
    (action,) = [a for a in parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return action.choices


def command_table() -> list[tuple[str, str, str]]:
    """Each command: its name, links to the schemas of what it prints, its exit codes."""
    rows = []
    for name, command in subcommands().items():
        answers = command.get_default("answers") or ()
        links = ", ".join(f"[{each}](../schemas/{each}.json)" for each in answers)
        codes = (command.description or "").partition("exit codes: ")[2].partition("\n\n")[0]
        rows.append((f"`{name}`", links or "–", " ".join(codes.split())))
    return rows


def fits(document: Any, name: str) -> None:
    """Raise ValidationError unless what a command printed fits docs/schemas/<name>.json."""
    path = PROJECT / "docs" / "schemas" / f"{name}.json"
    jsonschema.validate(document, json.loads(path.read_text(encoding="utf-8")))


def printed_schema(name: str) -> str:
    """The text of docs/schemas/<name>.json."""
    words, schema = PRINTED[name]
    first = " ".join(words.partition("\n\n")[0].split())
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        "description": f"{first} docs/how-to/machines.md",
    }
    return json.dumps({**head, **schema}, indent=1) + "\n"
