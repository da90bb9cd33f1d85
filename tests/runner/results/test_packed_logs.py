"""Logs that a page has inside."""

import base64
import gzip
import json
import random
from pathlib import Path

from runner.base.masking import Masks
from runner.folder import names
from runner.report.formats import render
from runner.results.evidence import TOO_LARGE, evidence_of_records, packed_logs
from runner.results.records import records_of
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, torch_gpt, write
from tests.runner.documents import document_of
from tests.runner.report.test_report import Page


def test_logs_are_packed_until_there_is_no_room(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(30_000).hex()
    logs = {0: torch_gpt(50), 1: noise}
    matrix = small_matrix({"seed": [1, 2]}, {"nodes": 2})
    campaign = write(tmp_path, matrix, small_cluster(), lambda cell, repeat: Story(logs))
    records = records_of(campaign, tmp_path)
    evidence = evidence_of_records(campaign, records, tmp_path)
    assert packed_logs(records, evidence, 0) == []
    found = packed_logs(records, evidence, 20_000)
    assert [log.path for log in found[:2]] == [record.log for record in records]
    for log in found[:2]:
        content = gzip.decompress(base64.b64decode(log.data))
        assert content == (tmp_path / log.path).read_bytes()
        assert log.bytes == len(content)
    assert [(log.data, log.left_out) for log in found[2:]] == [("", TOO_LARGE)] * 2
    assert packed_logs(records, evidence, 20_000) == found
    everything = packed_logs(records, evidence, 1 << 20)
    assert all(log.data for log in everything)
    assert sum(len(base64.b64decode(log.data)) for log in everything) < 1 << 20

    text = render(document_of(records, evidence=evidence, logs=found), "html")
    page = Page(text)
    assert page.open == []
    packed = [attrs for tag, attrs in page.elements if tag == "template"]
    assert [attrs["data-name"] for attrs in packed] == [log.path for log in found[:2]]
    for log in found[2:]:
        assert f"{log.path} (59 KiB)" in text
    assert found[0].data in text


def test_a_secret_that_the_tail_hides_is_in_no_packed_log(tmp_path: Path) -> None:
    value = "hunter2hunter2"
    matrix = small_matrix({"seed": [1]}, {"nodes": 1})
    told = Story({0: f"{torch_gpt(50)}the key is {value}\n"})
    campaign = write(tmp_path, matrix, small_cluster(), lambda cell, repeat: told)
    (planned,) = campaign.path.glob(f"*/*/*/{names.RUN}")
    content = json.loads(planned.read_text())
    content["nodes"][0]["env"]["OLD_API_KEY"] = value
    planned.write_text(json.dumps(content))
    records = records_of(campaign, tmp_path)
    evidence = evidence_of_records(campaign, records, tmp_path)
    (log,) = packed_logs(records, evidence, 1 << 20)
    packed = gzip.decompress(base64.b64decode(log.data))
    assert value.encode() not in packed
    assert b"the key is redacted\n" in packed
    assert value not in repr(evidence)


def test_a_secret_across_blocks_is_masked_and_all_else_is_as_it_was() -> None:
    text = b"a" * 10 + b"secret-1" + b"b" * 10 + b"secret-1" + b"secret"
    for size in range(1, len(text) + 1):
        parts = [text[at : at + size] for at in range(0, len(text), size)]
        found = b"".join(Masks(["secret-1", "x"]).blocks(parts))
        assert found == text.replace(b"secret-1", b"redacted")
    assert b"".join(Masks().blocks([text])) == text
