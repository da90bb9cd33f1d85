"""JSON schemas: `PRINTED` of what commands print, `FILES` of a campaign's files."""

from collections.abc import Mapping
from typing import Any

from runner.accept.acceptance import AcceptState, NodeFault
from runner.base.dataclass_schema import shape
from runner.compare.verdicts import ComparedCell
from runner.expect.references import Speed
from runner.folder import names
from runner.folder.endings import Ending
from runner.folder.events import Event
from runner.folder.hidden import Hidden
from runner.launch.campaign_status import _DRAWN, Status
from runner.results.parsed import LogResult
from runner.tables.columns import COLUMNS, PEOPLE
from runner.tables.row import Row, RowRun
from runner.terms.outcome import Outcome
from runner.terms.printed_answers import ANSWERS
from runner.terms.run import Run
from runner.terms.settings import Settings

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


def with_words(words: str, schema: Schema) -> Schema:
    """Such a value, with what it is."""
    return {**schema, "description": words}


def keys(optional: Mapping[str, Schema] | None = None, /, **needed: Schema) -> Schema:
    """An object with these keys and no other; `optional` may be missing."""
    properties = {**needed, **(optional or {})}
    return {
        "type": "object",
        "properties": properties,
        "required": list(needed),
        "additionalProperties": False,
    }


HIDDEN = with_words("what ran and the matrix no longer names, in a sentence", TEXT)
LEFT_OUT = listed(keys(source=TEXT, reason=TEXT))
UNOFFICIAL = listed({"enum": ["imported", "redacted", "not publishable"]})


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
    reached = with_keys(of(Speed), tokens_per_s_per_device=NUMBER)
    found = keys(
        of=TEXT,
        percent=maybe(NUMBER),
        same_conditions=FLAG,
        median_tokens_per_s_per_device=maybe(NUMBER),
        differences=listed(keys(what=TEXT, here=TEXT, there=TEXT)),
        references=listed(reached),
    )
    speed = keys(name=TEXT, conditions=maybe(reached), missing=TEXT, expectations=listed(found))
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
    detail = with_keys(
        of(AcceptState),
        inventory=TEXT,
        healthy=listed(TEXT),
        failing=named(listed(of(NodeFault))),
        faults=listed(of(NodeFault)),
        untested=listed(TEXT),
        leave_out=named(TEXT),
    )
    study = _study()
    return {**study, "properties": {**study["properties"], "detail": detail}}


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


def _table() -> Schema:
    """`collect --format json`: figures of a baseline, of documents, of experts where there are."""
    cell = of(Row)
    texts = {*PEOPLE, *cell["properties"]}
    figures = {key: column.json_schema() for key, column in COLUMNS.items() if key not in texts}
    cell["properties"] |= {
        "figures": with_words(
            "each figure by its key (docs/measures.md); null where it is not known",
            {"type": "object", "properties": figures, "additionalProperties": NUMBER},
        ),
        "missing": with_words("figure to why it is null", named(TEXT)),
        "runs": {**listed(_run()), "minItems": 1},
    }
    published = keys(
        source=TEXT,
        hardware=TEXT,
        cell=maybe(ANY_OBJECT),
        labels=named(TEXT),
        figures=named(NUMBER),
    )
    return keys(
        title=TEXT,
        description=TEXT,
        schema=VERSION,
        campaign={"anyOf": [TEXT, listed(TEXT), {"type": "null"}]},
        hidden=HIDDEN,
        environment=named(TEXT),
        rows=listed(cell),
        published=listed(published),
    )


def _run() -> Schema:
    """A run of a cell: what `to_json` of runner/tables/machine_document.py writes."""
    curve = listed({**listed(NUMBER), "minItems": 2, "maxItems": 2})
    node = keys(
        rank=WHOLE,
        host=TEXT,
        commands=with_words("an argv for each process", listed(listed(TEXT))),
        env=named(TEXT),
        cwd=TEXT,
        files=listed(TEXT),
        note=TEXT,
        traces=with_words("a profiler's, in the run's folder", listed(TEXT)),
        log=keys(path=TEXT, bytes=maybe(WHOLE), missing=TEXT),
    )
    return with_keys(
        of(RowRun),
        began=with_words("epoch seconds, by the control node's clock", maybe(NUMBER)),
        wall_s=NUMBER,
        curves=with_words(
            "(iteration, value), at most 300 points: medians of neighbours",
            keys(dict.fromkeys(("loss", "validation_loss", "step_time_ms"), curve)),
        ),
        nodes=with_words(
            "what each node started, by rank; a value that is named like a secret is masked",
            listed(node),
        ),
        evidence_missing=with_words("why no node has a command; empty where they have", TEXT),
    )


def _sheets() -> Schema:
    difference = named(keys(difference=maybe(NUMBER), percent=maybe(NUMBER)))
    row = keys(
        **{"from": {"enum": ["ours", "published"]}},
        cell=maybe(TEXT),
        status=TEXT,
        source=maybe(TEXT),
        values=named({"type": ["number", "string", "boolean", "null"]}),
        differences=difference,
        printed=difference,
    )
    columns = {**listed(keys(key=TEXT, header=TEXT)), "minItems": 1}
    table = keys(title=TEXT, columns=columns, rows=listed(row), notes=listed(TEXT))
    shapes = {"enum": ["osdi", "ascend", "frameworks", "pivot"]}
    return keys(schema=VERSION, shape=shapes, hidden=HIDDEN, tables=listed(table))


def _regressions() -> Schema:
    regression = keys(
        id=with_words("urn:uuid of it, the same whatever campaigns come later", TEXT),
        verdict={"enum": ["slower", "more_memory", "broke"]},
        open=with_words("no later campaign is back", FLAG),
        cell=TEXT,
        series=with_words("name of the cell over all campaigns", TEXT),
        system=TEXT,
        machine=TEXT,
        quantity=with_words("null of what broke", maybe(TEXT)),
        before=with_words("level before", maybe(NUMBER)),
        after=with_words("level since", maybe(NUMBER)),
        change_percent=maybe(NUMBER),
        p=with_words("probability that noise makes such a change in the series", maybe(NUMBER)),
        reason=with_words("of what broke: how", TEXT),
        last_good=with_words("id of the campaign before", TEXT),
        first_bad=with_words("id of the first campaign that is worse", TEXT),
        first_bad_began=maybe(NUMBER),
        unofficial=UNOFFICIAL,
        changed=listed(keys(key=TEXT, was=TEXT, **{"is": TEXT})),
    )
    return keys(
        schema=VERSION,
        thresholds_percent=named(NUMBER),
        campaigns=with_words("ids, in the order in which they began", listed(TEXT)),
        left_out=LEFT_OUT,
        regressions=listed(regression),
    )


def _study() -> Schema:
    table = keys(title=TEXT, columns=named(TEXT), rows=listed(named({})))
    return keys(
        schema=VERSION,
        kind=TEXT,
        verdict=TEXT,
        exit_code=WHOLE,
        sentence=TEXT,
        tables=listed(table),
        notes=listed(TEXT),
        cost_node_hours=NUMBER,
        detail=named({}),
    )


def _answer(noun: type) -> Schema:
    schema = of(noun)
    return {**schema, "properties": {**schema["properties"], "schema": VERSION}}


_LOG = with_keys(of(LogResult), schema=VERSION)
# Each name, to what the schema is of and itself.
PRINTED: Mapping[str, tuple[str, Schema]] = {
    **{name: (noun.__doc__ or "", _answer(noun)) for name, noun in ANSWERS.items()},
    "accept": ("What `accept` found (docs/how-to/accept.md).", _accept()),
    "answer": (
        "What `tune`, `ci` or `bisect` found; what these and `accept` would do (docs/how-to/).",
        _study(),
    ),
    "compare": ("Two campaigns, worst cells first (docs/runs.md).", _compare()),
    "doctor": ("What `doctor` and `verify` found (docs/how-to/accept.md).", _doctor()),
    "dry_run": ("What each cell's first run would start, on each node.", _dry_run()),
    "expect": ("Speeds beside those of others (docs/how-to/expect.md).", _expect()),
    "parse": ("What logs say (docs/parsers.md).", _LOG),
    "parse_each": ("What each log says.", listed(with_keys(_LOG, log=TEXT))),
    "plan": ("What bench would do: kept, new, hidden; times in seconds.", _plan()),
    "regressions": ("What got worse, the newest first (docs/how-to/publish.md).", _regressions()),
    "sheets": ("`collect --shape`: a document's tables.", _sheets()),
    "status": ("How far a campaign has got (docs/runs.md).", _status()),
    "table": ("A campaign's table. docs/measures.md says what each figure is.", _table()),
}


# Files of a campaign, and of a run in it, each as the noun that it is read as.
FILES: Mapping[str, type] = {
    names.CAMPAIGN: Settings,
    names.RUN: Run,
    names.OUTCOME: Outcome,
    names.DONE: Ending,
    "event.json": Event,  # a line of events.jsonl
}


def schemas() -> dict[str, Schema]:
    """Return every schema, by its file's name."""
    return {**{f"{name}.json": printed(name) for name in PRINTED}, **{n: of_file(n) for n in FILES}}


def printed(name: str) -> Schema:
    """Return the schema of what a command prints."""
    words, schema = PRINTED[name]
    return _headed(name, f"{_first(words)} docs/how-to/cluster.md", schema)


def of_file(name: str) -> Schema:
    """Return the schema of a campaign's file: what this version reads of it, and refuses."""
    words = f"{_first(FILES[name].__doc__ or '')} docs/runs.md. What else it has is not read."
    return _headed(name, words, shape(FILES[name]).json_schema())


def _headed(title: str, description: str, schema: Schema) -> Schema:
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, "title": title, "description": description, **schema}


def _first(words: str) -> str:
    return " ".join(words.partition("\n\n")[0].split())
