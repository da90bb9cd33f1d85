"""The HTML report: self-contained, escaped, and there for any set of records."""

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.base.paths import TEMPLATES
from runner.figures.flops import Decoder
from runner.report.groups import MOST_CURVES, groups
from runner.report.links import href
from runner.report.templating import breakable, grouped
from runner.tables.environment_facts import environment_section
from runner.terms.record import Interval, Measurement, Record
from tests.budget import examples
from tests.runner.campaigns import forty
from tests.runner.documents import render

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
VOID = {"meta", "link", "br", "img", "wbr"}


def only_our_script(text: str) -> bool:
    """Whether a page has one script, which the policy names by its checksum, and which is ours."""
    ((attributes, script),) = re.findall(r"<script([^>]*)>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    ((policy,),) = [
        [attrs["content"] or ""]
        for tag, attrs in Page(text).elements
        if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    rules = dict(rule.split(maxsplit=1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == f"'sha256-{digest}'"
    assert text.count("<script") == text.count("</script") == 1
    return not attributes and script == (TEMPLATES / "page" / "page.js").read_text()


class Page(HTMLParser):
    """The elements of a page with their attributes, its text, and what was never closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def links(self) -> list[str]:
        names = ("href", "xlink:href", "src", "srcset", "data", "action", "poster")
        return [a[n] or "" for _, a in self.elements for n in names if n in a]


def record(name: str = "n1-zero0", *, nodes: int = 1, zero: int = 0, **more: Any) -> Record:
    rate = 230.0 * nodes * (1 - 0.05 * zero)
    steps = [Interval(n, 1, None, rate + n % 3, 9.0 - n / 10, 1.0) for n in range(1, 21)]
    fields: dict[str, Any] = {
        "campaign": "zero",
        "cell": name,
        "cell_id": name,
        "system": "torch_gpt",
        "status": "ok",
        "reason": "",
        "axes": {"nodes": nodes, "zero_stage": zero},
        "nodes": nodes,
        "devices_per_node": 8,
        "micro_batch_size": 4,
        "global_batch_size": 32 * nodes,
        "warmup_iters": 5,
        "model": Decoder(12, 768, 12, 1024, 50257),
        "measurement": Measurement(tuple(steps), 9000.0 - 1000 * zero, 10000.0 - 1000 * zero),
        "log": f"{name}/launcher.log",
        "environment": {"nodes": {f"node-{n}": {"driver": f"5{n}"} for n in range(nodes)}},
    }
    return Record(**(fields | more))


CAMPAIGN = [
    record(f"n{nodes}-zero{zero}", nodes=nodes, zero=zero) for nodes in (1, 2) for zero in (0, 1)
]


def failed(base: Record, words: str = "boom") -> Record:
    return replace(
        base, status="did_not_run", reason=words, last_words=words, measurement=Measurement()
    )


@pytest.mark.parametrize(
    ("records", "baseline"),
    [
        ([], None),
        (CAMPAIGN, None),
        (CAMPAIGN, "zero_stage=0"),
        ([failed(run) for run in CAMPAIGN], "zero_stage=0"),
        ([replace(CAMPAIGN[0], status="failed", reason="out of memory")], None),
        ([replace(CAMPAIGN[0], status="pending", measurement=Measurement())], None),
    ],
)
def test_well_formed_and_without_a_network_request(
    records: list[Record], baseline: str | None
) -> None:
    text = render(records, "html", baseline)
    page = Page(text)
    assert page.open == []
    assert all(not re.match(r"[a-z]+:|//|/", link) for link in page.links() if link != "data:,")
    assert "http:" not in text
    assert "https:" not in text
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    assert not any(tag in ("iframe", "object", "embed") for tag, _ in page.elements)
    assert only_our_script(text)


def test_what_logs_and_matrices_say_is_escaped() -> None:
    evil = record(
        EVIL,
        campaign=EVIL,
        system=EVIL,
        axes={EVIL: EVIL, "zero_stage": 0},
        environment={EVIL: EVIL, "nodes": {EVIL: {EVIL: EVIL}}},
        log=f"{EVIL}/log",
    )
    broken = replace(failed(evil, EVIL), cell=EVIL + "2", cell_id="2", last_words=EVIL)
    other = replace(evil, cell="other", cell_id="3", axes={EVIL: "x", "zero_stage": 0}, nodes=2)
    page = Page(render([evil, broken, other], "html", "zero_stage=0"))
    assert page.open == []
    assert [tag for tag, _ in page.elements if tag in ("script", "img")] == ["script"]
    assert not any(name.startswith("on") for _, attrs in page.elements for name in attrs)
    assert any("<script>" in text for text in page.text)


def test_names_are_never_read_as_mathematics() -> None:
    assert "a$x_1$b" in render([record("a$x_1$b")], "html")


def test_plots_follow_the_page_colours_and_keep_text_as_text() -> None:
    text = render(CAMPAIGN, "html", "zero_stage=0")
    # memory, loss, step time; samples/s and efficiency over devices
    assert text.count('role="img"') == 5
    assert "var(--c0)" in text
    assert "#0102" not in text
    assert re.search(r"<text[^>]*>iteration</text>", text)


def test_curves_say_their_cell_on_hover() -> None:
    text = render(CAMPAIGN, "html")
    assert text.count("<title>n2-zero1</title>") == 2
    assert (
        'title="n1-zero0: 231.0 samples/s (no interval: one run does not show how runs differ'
        in text
    )


def test_ids_are_unique() -> None:
    ids = [attrs["id"] for _, attrs in Page(render(CAMPAIGN, "html")).elements if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_failed_cells_show_reason_last_words_and_log() -> None:
    runs = [
        replace(failed(CAMPAIGN[0], "\x1b[31mCUDA out of memory\x1b[0m"), repeat=n) for n in (1, 2)
    ]
    text = render([*runs, *CAMPAIGN[1:]], "html")
    assert "<pre>CUDA out of memory</pre>" in text
    assert "repeat 1, 2" in text
    assert text.count('href="n1-zero0/launcher.log"') == 6
    assert "\x1b" not in text


def test_only_failed_records_draw_no_plot() -> None:
    text = render([failed(run) for run in CAMPAIGN], "html")
    assert "<h2>Plots</h2>" not in text
    assert text.count("<article") == len(CAMPAIGN)


def test_the_same_records_give_the_same_page() -> None:
    assert render(CAMPAIGN, "html") == render(CAMPAIGN, "html")


def test_a_plot_that_cannot_be_drawn_says_so_and_the_page_is_there() -> None:
    run = CAMPAIGN[0]
    steps = [
        replace(step, loss=(-1) ** number * 1e308)
        for number, step in enumerate(run.measurement.intervals)
    ]
    wild = replace(run, measurement=replace(run.measurement, intervals=tuple(steps)))
    page = Page(render([wild, *CAMPAIGN[1:]], "html"))
    assert page.open == []
    assert any("This plot cannot be drawn: " in text for text in page.text)
    assert any(tag == "svg" for tag, _ in page.elements)


def test_a_long_run_is_thinned() -> None:
    steps = tuple(Interval(n, 1, 100.0, None, 9.0) for n in range(1, 20_001))
    long = replace(CAMPAIGN[0], measurement=Measurement(steps))
    assert len(render([long], "html")) < 150_000


def test_environment_tells_nodes_apart() -> None:
    facts = {"a": {"os": "12", "gpu": "V100"}, "b": {"os": "12", "gpu": "V100"}, "c": {"os": "12"}}
    section = environment_section([record(environment={"nodes": facts, "torch": "2.11"})])
    assert section["nodes"] == ["a", "b", "c"]
    assert section["node_same"] == [("os", "12")]
    assert section["node_differs"] == [("gpu", [("V100", "a, b"), ("–", "c")])]
    assert section["same"] == [("torch", "2.11")]


def test_environment_tells_cells_apart() -> None:
    runs = [
        record("a", environment={"pin": {"torch": "2.11"}, "empty": None}),
        record("b", environment={"pin": {"torch": "2.13", "numpy": "2"}}),
        record("c"),
    ]
    section = environment_section(runs)
    assert section["differs"] == [("pin / torch", [("2.11", "a"), ("2.13", "b")])]
    assert section["same"] == [("pin / numpy", "2")]


@pytest.mark.parametrize(
    ("path", "link"),
    [
        ("runs/a b/launcher.log", "runs/a%20b/launcher.log"),
        ("../runs/x.log", "../runs/x.log"),
        ("javascript:alert(1)", "javascript%3Aalert%281%29"),
        ("/home/someone/x.log", None),
        ("", None),
    ],
)
def test_links_are_relative(path: str, link: str | None) -> None:
    assert href(path) == link


# --- forty cells ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def forty_cells(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Where a report of forty cells would stand, and its text."""
    folder = tmp_path_factory.mktemp("forty")
    return folder, render(forty(folder), "html")


def test_forty_cells_are_drawn_so_that_curves_can_be_told_apart(
    forty_cells: tuple[Path, str],
) -> None:
    _, text = forty_cells
    page = Page(text)
    assert page.open == []
    drawings = re.findall(r'<svg [^>]*role="img".*?</svg>', text, re.DOTALL)
    curves = [drawing for drawing in drawings if "one line per cell" in drawing]
    assert len(curves) == 14  # loss and step time, seven groups each
    assert all(
        1 <= drawing.count("<title>") <= MOST_CURVES for drawing in drawings if drawing in curves
    )
    for words in ("system torch_gpt, zero_stage 0", "nodes 1, micro_batch_size 2"):
        assert words in "".join(page.text)
    bars = text[text.index('id="throughput"') : text.index('id="results"')]
    assert bars.count('class="name"') == 40
    contents = [link for link in page.links() if link.startswith("#") and link[1:].isalpha()]
    ids = [attributes.get("id") for _, attributes in page.elements]
    assert "#results" in contents
    assert all(ids.count(link[1:]) == 1 for link in contents)


def test_every_row_with_a_number_links_to_a_log_that_is_there(
    forty_cells: tuple[Path, str],
) -> None:
    folder, text = forty_cells
    for link in set(Page(text).links()) - {"data:,"}:
        if not link.startswith("#"):
            assert (folder / unquote(link)).is_file(), link
    rows = re.findall(r'<tr id="cell-.*?</tr>', text, re.DOTALL)
    assert len(rows) == 40
    assert sum("launcher.log" in row for row in rows) == 39  # one of 40 is pending
    for row in rows:
        (speed,) = re.findall(r'<td[^>]* class="number lead">(.*?)</td>', row)
        assert speed == "–" or re.fullmatch(r'<a class="figure" href="[^"]+">.+</a>', speed)


def test_nodes_that_log_or_were_sampled_have_curves_of_their_own(
    forty_cells: tuple[Path, str],
) -> None:
    _, text = forty_cells
    for words in ("step time, ms over iteration, one line per node", "busy, % over s, one line"):
        drawings = re.findall(rf'<svg [^>]*aria-label="{words}.*?</svg>', text, re.DOTALL)
        assert len(drawings) == 3  # of a cell of each system
        assert all(drawing.count(": node ") == 4 for drawing in drawings)


def test_what_fails_names_the_log_that_says_why(forty_cells: tuple[Path, str]) -> None:
    _, text = forty_cells
    problems = text.partition('id="problems"')[2]
    found = re.findall(r"<p>(n4: exit code 1: memory ran out.*?)</p>", problems)
    assert len(found) == 3
    assert all("nodes/0003-n4/launcher.log" in unquote(words) for words in found)


@pytest.mark.parametrize(
    ("axes", "labels", "names"),
    [
        ([{"a": "1"}], [""], [("",)]),
        ([{"a": "1"}, {"a": "2"}], [""], [("a 1", "a 2")]),
        (
            [{"a": a, "b": b, "c": "x"} for a in "12" for b in "12345"],
            ["a 1", "a 2"],
            [tuple(f"b {b}" for b in "12345")] * 2,
        ),
        (
            [{"a": str(n)} for n in range(9)],
            ["cells 1 to 7", "cells 8 to 9"],
            [tuple(f"a {n}" for n in range(7)), ("a 7", "a 8")],
        ),
        ([{"a": "1"}] * 8, ["cells 1 to 7", "cell 8"], None),
        ([], [], []),
    ],
)
def test_cells_are_grouped_by_as_few_axes_as_will_do(
    axes: list[dict[str, str]], labels: list[str], names: list[tuple[str, ...]] | None
) -> None:
    found = groups(axes)
    assert [group.label for group in found] == labels
    assert names is None or [group.names for group in found] == names
    assert sorted(place for group in found for place in group.members) == list(range(len(axes)))


nested = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["nodes", "hosts", "host", "a"]), inner, max_size=3),
    ),
    max_leaves=8,
)


@settings(max_examples=examples(30), deadline=None)
@given(st.dictionaries(st.sampled_from(["nodes", "hosts", "a", "b"]), nested, max_size=3))
def test_any_environment_renders(environment: dict[str, Any]) -> None:
    assert Page(render([failed(record(environment=environment))], "html")).open == []


def test_facts_are_grouped_by_what_they_belong_to() -> None:
    pairs = [("pin / torch", "2.11"), ("os", "12"), ("pin / numpy", "2")]
    assert grouped(pairs) == [("", [("os", "12")]), ("pin", [("torch", "2.11"), ("numpy", "2")])]


def test_long_names_may_break_and_stay_escaped() -> None:
    assert breakable("a=1,b_<c>") == "a=<wbr>1,<wbr>b_<wbr>&lt;c&gt;<wbr>"
