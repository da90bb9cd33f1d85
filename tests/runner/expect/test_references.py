"""The shipped reference speeds against their schema; bad files, each refused in one sentence."""

import csv
import re
from collections import Counter
from dataclasses import fields, replace
from datetime import date
from pathlib import Path

import pytest

from node.printable import printable
from runner.archive import archive
from runner.base.errors import UserError
from runner.base.paths import PROJECT
from runner.expect.conditions import differences
from runner.expect.references import (
    MEANINGS,
    PRECISIONS,
    RECOMPUTATIONS,
    SHIPPED,
    Speed,
    parse_references,
    read_references,
    shipped,
)
from runner.figures.devices import DEVICES
from runner.tables.campaign_reading import read_campaign
from runner.tables.expected import subject_of

HEADER = "device,devices,model,trainer,figure,unit,quoted,where,address,read,tokens_per_sample"
LINE = "H200 SXM,8,Llama 3 8B,x,9421,tokens_per_s_per_device,TPS 9421,t,https://x.org/a,2026-11-24,"


def test_the_shipped_file_has_the_columns_of_a_reference() -> None:
    assert set(MEANINGS) == {field.name for field in fields(Speed)}
    with SHIPPED.open() as stream:
        assert next(csv.reader(stream)) == list(MEANINGS)


def test_each_shipped_figure_stands_in_the_words_of_its_source() -> None:
    for line in shipped():
        printed = re.findall(r"\d[\d,]*(?:\.\d+)?", line.quoted)
        assert line.figure in [float(number.replace(",", "")) for number in printed], line
        assert line.where, line
        assert re.fullmatch(r"https://[^\s/]+/\S*|docs/[\w./-]+", line.address), line
        assert date.fromisoformat(line.read).isoformat() == line.read, line
        assert line.precision in ("", *PRECISIONS), line
        assert line.recomputation in ("", *RECOMPUTATIONS), line
        active, total = line.active_parameters_b, line.parameters_b
        assert active is None or (total is not None and active <= total), line
        texts = [value for value in vars(line).values() if isinstance(value, str)]
        assert max(map(len, texts)) <= 500, line
    with SHIPPED.open() as stream:
        assert all(field == printable(field) for row in csv.reader(stream) for field in row)
    assert len(set(shipped())) == len(shipped())


def test_shipped_figures_are_many_and_each_has_its_source() -> None:
    lines = shipped()
    assert len(lines) >= 120
    assert len({line.device for line in lines}) >= 8
    assert len({line.trainer for line in lines}) >= 6
    assert all(line.tokens_per_s_per_device > 0 for line in lines)
    named = Counter((line.address, line.where, line.quoted, line.conditions) for line in lines)
    assert max(named.values()) == 1  # a second reader finds the one line that is meant


def test_a_device_that_we_know_has_its_name_in_the_table() -> None:
    known = {device.name for device in DEVICES}
    own = {"H100", "V100", "B300", "GB300", "TPU v5p", "TPU v6e (Trillium)", "TPU7x (Ironwood)"}
    assert {line.device for line in shipped()} <= known | own | {"Apple M3 Max"}


def test_our_own_figures_stand_on_their_pages_or_are_those_of_their_bundles() -> None:
    for line in shipped():
        if not line.address.startswith("docs/"):
            continue
        if line.address.endswith(".tar.gz"):
            with archive.opened(PROJECT / "runs", str(PROJECT / line.address)) as source:
                rows = read_campaign(source.campaign, PROJECT, reader_path=source.shown).rows
            (speed,) = (subject_of(row) for row in rows if row["cell"] == line.where)
            assert speed is not None
            assert replace(line, figure=round(speed.figure)) == line
            assert not list(differences(speed, line))
        else:
            figure = line.quoted.rpartition(" ")[2]
            assert f" {figure} " in (PROJECT / line.address).read_text().replace("*", " "), line


def test_a_source_that_forbids_copies_has_no_figure() -> None:
    assert not [line for line in shipped() if "mlcommons" in line.address]


@pytest.mark.parametrize(
    ("unit", "more", "expected"),
    [
        ("tokens_per_s_per_device", "", 9421),
        ("tokens_per_s", "", 9421 / 8),
        ("samples_per_s", "1024", 9421 * 1024 / 8),
    ],
)
def test_units_become_tokens_per_second_of_one_device(
    unit: str, more: str, expected: float
) -> None:
    line = LINE.replace("tokens_per_s_per_device", unit) + more
    (reference,) = parse_references(f"{HEADER}\n{line}\n", "mine.csv")
    assert reference.tokens_per_s_per_device == pytest.approx(expected)


@pytest.mark.parametrize(("unit", "figure"), [("step_time_ms", "250"), ("step_time_s", "0.25")])
def test_step_times_become_tokens_per_second_of_one_device(unit: str, figure: str) -> None:
    text = f"{HEADER},global_batch_size\n{LINE}1024,16\n".replace("tokens_per_s_per_device", unit)
    (reference,) = parse_references(text.replace("9421", figure), "mine.csv")
    assert reference.tokens_per_s_per_device == pytest.approx(16 * 1024 / 0.25 / 8)


GOOD = f"{HEADER}\n{LINE}\n"
BAD = [
    ("empty", "", "mine.csv has no figure; its first line names device, "),
    ("no figure", HEADER, "mine.csv has no figure"),
    ("unknown column", GOOD.replace("trainer", "trianer"), "no column 'trianer' (did you mean"),
    ("column missing", "device,devices\nH200,8", "line 2: model is missing; write model"),
    ("too few fields", f"{HEADER}\nH200 SXM,8", "line 2: model is missing"),
    ("too many fields", f"{GOOD}{LINE},,1", "line 3: there is no column 'None'"),
    ("an open quotation", GOOD.replace("H200", '"H200'), "line 2 is not valid CSV"),
    ("empty field", GOOD.replace("Llama 3 8B", ""), "line 2: model is missing; write model"),
    ("no number", GOOD.replace(",9421,", ",fast,"), "figure is 'fast'; it must be a number"),
    ("not above 0", GOOD.replace(",9421,", ",-1,"), "figure is '-1'; it must be a number above 0"),
    ("not finite", GOOD.replace(",9421,", ",inf,"), "it must be a number above 0"),
    ("half a device", GOOD.replace(",8,", ",0.5,"), "devices is '0.5'; it must be a whole number"),
    ("no device", GOOD.replace(",8,", ",0,"), "devices is '0'; it must be a whole number"),
    ("unknown unit", GOOD.replace("_per_device", "_device"), "unit is 'tokens_per_s_device'"),
    (
        "unknown recomputation",
        GOOD.replace("read,", "recomputation,").replace("2026-11-24", "all"),
        "recomputation is 'all'; it must be one of none, selective, full",
    ),
    (
        "unknown split",
        GOOD.replace("read,", "model_parallel,").replace("2026-11-24", "TP=2"),
        "model_parallel is 'TP=2'; it must be none, or sizes",
    ),
    ("control characters", GOOD.replace(",9421,", ",\x1b[2J,"), "it must be a number above 0"),
    (
        "no batch",
        GOOD.replace("tokens_per_s_per_device", "step_time_ms").rstrip() + "1024\n",
        "does not become tokens/s; fill in tokens_per_sample, and for a step time global_batch_",
    ),
]


@pytest.mark.parametrize(
    ("text", "expected"), [one[1:] for one in BAD], ids=[one[0] for one in BAD]
)
def test_a_bad_file_is_refused_in_one_sentence(text: str, expected: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_references(text, "mine.csv")
    sentence = str(caught.value)
    assert expected in sentence
    assert "\n" not in sentence
    assert "\x1b" not in sentence


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes(b"ger\xe4t\n")
    for path, expected in (
        (tmp_path / "nowhere.csv", "cannot be read"),
        (tmp_path, "is not a plain file"),
        (tmp_path / "latin.csv", "is not text in UTF-8"),
    ):
        with pytest.raises(UserError, match=expected):
            read_references(path)
