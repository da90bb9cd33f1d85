"""roles/dataset: a Wikipedia dump through the real WikiExtractor, on this machine.

The dump is a stand-in: a few pages in its format, in a folder that site_mirrors names.
"""

import bz2
import copy
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.roles.play import play

tokenizers = pytest.importorskip("tokenizers")
pytestmark = [pytest.mark.network, pytest.mark.nightly("setup", by_day="minutes")]
PAGES = 2000


def dump() -> bytes:
    """What dumps.wikimedia.org has, as far as WikiExtractor looks at it."""
    pages = "".join(
        f"""  <page>
    <title>Title {i}</title>
    <ns>0</ns>
    <id>{i}</id>
    <revision>
      <id>{i}</id>
      <text xml:space="preserve">'''Title {i}''' is the [[page]] with number {i}.

It says {"very " * (i % 400)}little.</text>
    </revision>
  </page>
"""
        for i in range(1, PAGES + 1)
    )
    head = """<mediawiki>
  <siteinfo>
    <base>https://en.wikipedia.org/wiki/Main_Page</base>
    <namespaces>
      <namespace key="0" case="first-letter" />
    </namespaces>
  </siteinfo>
"""
    return bz2.compress(f"{head}{pages}</mediawiki>\n".encode())


def test_a_dump_becomes_text_and_tokens_under_the_documents_names(tmp_path: Path) -> None:
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocab = {word: number for number, word in enumerate([*alphabet, "he", "<|endoftext|>"])}
    catalogue = yaml.safe_load((ROOT / "roles/dataset/vars/catalogue.yml").read_text())
    entry = copy.deepcopy(catalogue["dataset_catalogue"]["enwiki"])
    inputs: list[dict[str, Any]] = [
        dict(catalogue["dataset_inputs"][each]) if isinstance(each, str) else each
        for each in entry["inputs"]
    ]
    contents = {"xml.bz2": dump(), "json": json.dumps(vocab).encode()}
    merges = b"#version: 0.2\nh e\n"
    for each in inputs:
        content = contents.get(each["file"].partition(".")[2], merges)
        path = tmp_path / "mirror" / each["address"].removeprefix("https://")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        for kind in {"md5", "sha256"} & set(each):
            each[kind] = hashlib.new(kind, content).hexdigest()
    entry["inputs"] = inputs
    variables = {
        "cluster_root": str(tmp_path / "root"),
        "dataset_names": ["enwiki"],
        "dataset_own": {"enwiki": entry},
        "site_mirrors": {"data": {"https://": f"{tmp_path}/mirror/"}},
    }
    (tmp_path / "more.json").write_text(json.dumps(variables))
    inventory = Path(shutil.copytree(ROOT / "inventory" / "local", tmp_path / "inventory"))
    words = ["-e", f"@{tmp_path}/more.json"]
    ran = play(inventory, *words, playbook="data.yml")
    assert ran.rc == 0, ran.out
    home = tmp_path / "root" / "datasets" / "enwiki"
    manifest = json.loads((home / "dataset.json").read_text())
    # WikiExtractor 3.0.8 counts a dump's last article and does not write it
    assert manifest["documents"] == PAGES - 1
    for file in ("text/AA/wiki_00", "my-gpt_text_sentence.idx", "encoder.json", "gpt2-vocab.json"):
        assert file in manifest["sha256"]
    first = json.loads((home / "text/AA/wiki_00").read_text().splitlines()[0])
    assert first["text"].startswith("Title 1 is the page with number 1.")
    assert play(inventory, *words, playbook="data.yml").changed() == {"localhost": 0}
