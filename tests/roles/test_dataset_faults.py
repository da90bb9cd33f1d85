"""roles/dataset where something is wrong: the server, a checksum, a disk, a cable.

The documented hosts cannot be reached from a test. A server of ours stands in for them at the
boundary, through site_mirrors: small files at the documented addresses, of another content, so
that the catalogue's checksums of them are replaced by theirs. All the rest is real.
"""

import copy
import hashlib
import http.server
import json
import lzma
import random
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster import network
from tests.cluster.fixtures import Group, RealNodes
from tests.conftest import ROOT as REPOSITORY
from tests.roles.play import Ran, play

tokenizers = pytest.importorskip("tokenizers")
pytestmark = [pytest.mark.cluster, pytest.mark.nightly("setup", by_day="minutes")]
OSCAR = "huggingface.co/bigscience/misc-test-data/resolve/main/stas/oscar-1GB.jsonl.xz"
VOCAB = "s3.amazonaws.com/models.huggingface.co/bert/gpt2-vocab.json"
MERGES = "s3.amazonaws.com/models.huggingface.co/bert/gpt2-merges.txt"
MAKE_OWN = """
import hashlib, json, os, sys
files, home, millions = sys.argv[1:4]
sys.path.insert(0, files)
from node.checksum import sha256
from node.dataset import megatron_mmap
os.makedirs(home)
prefix = os.path.join(home, "own_text_document")
with megatron_mmap.Writer(prefix, "uint16") as writer:
    for number in range(int(millions)):
        writer.add_document([number % 60_000] * 1_000_000)
names = ["own_text_document.bin", "own_text_document.idx"]
manifest = {
    "prefix": "own_text_document",
    "bytes": {name: os.path.getsize(os.path.join(home, name)) for name in names},
    "sha256": {name: sha256(os.path.join(home, name)) for name in names},
}
json.dump(manifest, open(os.path.join(home, "dataset.json"), "w"))
"""


class Site:
    """A stand-in for the documented hosts: path to content, on an address of this machine."""

    def __init__(self, address: str, port: int = 0) -> None:
        self.files: dict[str, bytes] = {}
        self.cut_after: int | None = None  # bytes of an answer, whose connection then breaks
        self.sent: dict[str, int] = {}
        self.ranges: list[str] = []
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                name = self.path.lstrip("/")
                if name not in site.files:
                    self.send_error(404)
                    return
                content = site.files[name]
                begin = 0
                span = self.headers.get("Range")
                if span:
                    site.ranges.append(span)
                    begin = int(span.split("=")[1].rstrip("-"))
                    self.send_response(206)
                    whole = f"{begin}-{len(content) - 1}/{len(content)}"
                    self.send_header("Content-Range", f"bytes {whole}")
                else:
                    self.send_response(200)
                self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
                self.send_header("Content-Length", str(len(content) - begin))
                self.end_headers()
                rest = content[begin:]
                if site.cut_after is not None and name == OSCAR:
                    rest = rest[: site.cut_after]
                    site.cut_after = 0
                self.wfile.write(rest)
                site.sent[name] = site.sent.get(name, 0) + len(rest)

        self.server = http.server.ThreadingHTTPServer((address, port), Handler)
        self.address = f"http://{address}:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def sites() -> Iterator[list[Site]]:
    made: list[Site] = []
    yield made
    for site in made:
        site.stop()


def text(documents: int) -> bytes:
    """JSON lines that compress as text does: words of a small language."""
    numbers = random.Random(1)
    words = ["".join(numbers.choices("etaoinshrdlu", k=numbers.randint(1, 9))) for _ in range(9000)]
    lines = (
        json.dumps({"id": i, "text": " ".join(numbers.choices(words, k=200))})
        for i in range(documents)
    )
    return "".join(f"{line}\n" for line in lines).encode()


def serve(group: Group, sites: list[Site], content: bytes) -> tuple[Site, dict[str, Any]]:
    """The stand-in, and the inventory's variables for it."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocab = {word: number for number, word in enumerate([*alphabet, "he", "<|endoftext|>"])}
    site = Site(network.address(group.cluster.record.subnet, 1).rpartition(".")[0] + ".1")
    sites.append(site)
    site.files = {
        OSCAR: lzma.compress(content, preset=1),
        VOCAB: json.dumps(vocab).encode(),
        MERGES: b"#version: 0.2\nh e\n",
    }
    described = REPOSITORY / "roles" / "dataset" / "vars" / "catalogue.yml"
    catalogue = yaml.safe_load(described.read_text())
    entry = copy.deepcopy(catalogue["dataset_catalogue"]["oscar-1GB"])
    entry["inputs"] = [entry["inputs"][0]]
    for name, path in (("gpt2-vocab", VOCAB), ("gpt2-merges", MERGES)):
        md5 = hashlib.md5(site.files[path]).hexdigest()
        entry["inputs"].append({**catalogue["dataset_inputs"][name], "md5": md5})
    return site, {
        "dataset_names": ["oscar-1GB"],
        "dataset_own": {"oscar-1GB": entry},
        "site_mirrors": {"data": {"https://": site.address}},
    }


def variables(root: str) -> dict[str, Any]:
    return {
        "cluster_root": root,
        "cluster_systems": [],
        "cluster_devices_per_node": 1,
        "dataset_existing_python": sys.executable,
        "dataset_names": ["own"],
    }


def data(group: Group, tmp_path: Path, **more: Any) -> Ran:
    path = tmp_path / "more.json"
    path.write_text(json.dumps(more))
    return play(group.inventory, "-e", f"@{path}", playbook="data.yml")


def sums(group: Group, home: str) -> list[str]:
    argv = ["sh", "-c", f"cd {home} && find . -type f | sort | xargs sha256sum"]
    return [node.exec(argv).stdout for node in group.nodes]


def test_downloaded_decompressed_tokenized_and_brought_to_all(
    real_nodes: RealNodes, tmp_path: Path, sites: list[Site]
) -> None:
    """A server that dies midway and a wrong checksum too. Host and files are stand-ins."""
    root = "/opt/trainbench-oscar"
    group = real_nodes(3, variables=variables(root))
    content = text(3000)
    site, more = serve(group, sites, content)
    size = len(site.files[OSCAR])
    assert size > 1_000_000

    site.cut_after = 700_000
    cut = data(group, tmp_path, **more)
    assert cut.rc != 0
    assert re.search(r"the connection ended after .* it goes on from 683.6 KiB", cut.out), cut.out
    assert "oscar-1GB could not be made" in cut.out  # what the other nodes say
    site.cut_after = None

    wrong = copy.deepcopy(more)
    wrong["dataset_own"]["oscar-1GB"]["inputs"][2]["md5"] = "0" * 32
    refused = data(group, tmp_path, **wrong)
    assert refused.rc != 0
    assert re.search(r"gpt2-merges\.txt from .* has md5 \w{32}, not 0{32}", refused.out)
    assert site.ranges == ["bytes=700000-"] * len(site.ranges)
    assert site.sent[OSCAR] == size  # in two parts, and no byte twice

    made = data(group, tmp_path, **more)
    assert made.rc == 0, made.out
    assert site.sent[OSCAR] == size
    home = f"{root}/datasets/oscar-1GB"
    assert len(set(sums(group, home))) == 1
    manifest = json.loads(group.nodes[2].read(f"{home}/dataset.json"))
    assert manifest["documents"] == 3000
    assert manifest["bytes"]["my-gpt2_text_document.bin"] == 2 * manifest["tokens"]
    sha256 = hashlib.sha256(site.files[OSCAR]).hexdigest()
    assert manifest["recorded"] == {f"https://{OSCAR}": sha256}
    state = json.loads(group.nodes[2].read(f"{root}/datasets/.state.json"))
    assert state["recorded"] == manifest["recorded"]
    assert data(group, tmp_path, **more).changed() == {"node1": 0, "node2": 0, "node3": 0}


def test_a_full_disk_is_said_and_the_next_run_goes_on(
    real_nodes: RealNodes, tmp_path: Path, sites: list[Site]
) -> None:
    """The host and its files are stand-ins; the disks are real ones of 300 MiB."""
    root = "/opt/trainbench-full"
    group = real_nodes(2, variables=variables(root), upper_size_mib=300)
    first, second = group.nodes
    # The text fits on no disk with 30 MiB, its archive does: found out while it is decompressed.
    site, more = serve(group, sites, text(100) * 400)
    size = len(site.files[OSCAR])
    first.fill_disk(leave_mib=30)
    full = data(group, tmp_path, **more)
    assert full.rc != 0
    words = r"the disk is full \(.* MiB free\) while writing oscar-1GB\.jsonl; free some"
    assert re.search(words, full.out), full.out
    assert site.sent[OSCAR] == size
    first.free_disk()
    # The other node's disk is too small for what comes from the first.
    second.fill_disk(leave_mib=3)
    again = data(group, tmp_path, **more)
    assert site.sent[OSCAR] == size  # not downloaded again
    assert again.recap["node1"]["failed"] == 0, again.out
    assert again.recap["node2"]["failed"] == 1, again.out
    words = r"the disk of \S+ is too small for oscar-1GB: .* MiB more are needed and .* are free"
    assert re.search(words, again.out), again.out
    second.free_disk()
    last = data(group, tmp_path, **more)
    assert last.rc == 0, last.out
    assert last.changed() == {"node1": 0, "node2": 1}
    assert len(set(sums(group, f"{root}/datasets/oscar-1GB"))) == 1


def test_a_node_that_goes_away_midway_is_completed_by_the_next_run(
    real_nodes: RealNodes, tmp_path: Path
) -> None:
    root = "/opt/trainbench-cut"
    group = real_nodes(3, variables=variables(root))
    third = group.nodes[2]
    home = f"{root}/datasets/own"
    make = [sys.executable, "-c", MAKE_OWN, str(REPOSITORY), home, "500"]
    group.nodes[0].exec(make, check=True)
    size = int(group.nodes[0].exec(["stat", "-c", "%s", f"{home}/own_text_document.bin"]).stdout)
    assert size == 1_000_000_000
    came: list[int] = []

    def cut() -> None:
        """Pull the cable as soon as a twentieth has come."""
        look = ["sh", "-c", f"stat -c %s {root}/datasets/.work/share/*.part"]
        until = time.monotonic() + 120
        while time.monotonic() < until:
            sizes = [int(word) for word in third.exec(look).stdout.split()]
            if sizes and max(sizes) > size / 20:
                third.link(False)
                came.append(max(sizes))
                return

    cutter = threading.Thread(target=cut)
    cutter.start()
    lost = data(group, tmp_path)
    cutter.join()
    assert came
    assert came[0] < size * 0.9, "the cable was pulled too late to show anything"
    assert lost.rc == 4, lost.out
    assert lost.recap["node3"]["unreachable"] == 1, lost.out
    assert lost.changed()["node2"] == 1, lost.out
    assert not any(lost.recap[node]["failed"] for node in ("node1", "node2"))

    third.link(True)
    counter = Path("/sys/class/net", network.link(group.cluster.name, 3), "statistics", "tx_bytes")
    before = int(counter.read_text())
    again = data(group, tmp_path)
    passed = int(counter.read_text()) - before
    assert again.rc == 0, again.out
    assert again.changed() == {"node1": 0, "node2": 0, "node3": 1}
    assert passed < size - came[0] + 20_000_000, f"{passed} bytes came, after {came[0]}"
    assert len(set(sums(group, home))) == 1
    for node in group.nodes:  # 1 GB each
        node.exec(["rm", "-r", root], check=True)
