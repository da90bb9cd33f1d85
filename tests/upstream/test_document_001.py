"""Document 001 on a CPU: its pins from the package index on Python 3.8, and its preprocess_data.py.

The role installs pin set e52bdabb on a real node, all but apex, which needs CUDA; then the role
dataset has the real clone's own tools/preprocess_data.py tokenize, as `dataset_preprocess` says.
The text is upstream's sample dataset turned back into text, with upstream's tiny vocabulary (both
are in its repository), so that its tokens must come out byte for byte.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from node.dataset import megatron_mmap, tokenize_text
from runner.base.paths import PROJECT
from runner.systems.common.pins import pins
from tests.cluster.fixtures import Group, RealNodes
from tests.interpreters import python
from tests.roles.play import play
from tests.upstream import mirrors

tokenizers = pytest.importorskip("tokenizers")
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.network,
    pytest.mark.nightly("upstream", by_day="downloads"),
    pytest.mark.timeout(3600),
]
BASE = "/opt/trainbench-001"
SYSTEM, PIN, DATASET = "megatron_deepspeed", "e52bdabb", "oscar-en-10k"
HOME = f"{BASE}/systems/{SYSTEM}/{PIN}"
SAMPLE = "meg-gpt2-openwebtext_text_document"
FILES = (f"{SAMPLE}.bin", f"{SAMPLE}.idx", "gpt2-tiny-vocab.json", "gpt2-tiny-merges.txt")
DOCUMENTED = {
    **{"torch": "1.10.1", "torchvision": "0.11.2", "torchaudio": "0.10.1", "numpy": "1.22.0"},
    **{"transformers": "4.30.2", "deepspeed": "0.8.0", "setuptools": "59.5.0"},
}
VERIFY = """
- hosts: nodes
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: megatron_deepspeed
        tasks_from: verify
      vars:
        systems_root: "{{ cluster_root }}/systems"
        node_root: "{{ cluster_root }}"
"""


def text_of(folder: Path, source: dict[str, Any]) -> Path:
    """Upstream's sample files, and their tokens as JSON lines, in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    place = mirrors.mirror(source["repository"], source["commit"])
    for name in FILES:
        with (folder / name).open("wb") as file:
            file.write(mirrors.blob(place, f"{source['commit']}:tests/data/gpt2/{name}"))
    tokenizer = tokenize_text.tokenizer_of(*(str(folder / name) for name in FILES[2:]))
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    sample = megatron_mmap.MmapDataset(folder / SAMPLE)
    path = folder / f"{DATASET}.jsonl"
    with path.open("w", encoding="utf-8") as lines:
        for number in range(sample.documents):
            text = tokenizer.decode(sample.document(number).tolist()[:-1])
            lines.write(json.dumps({"text": text}) + "\n")
    return path


@pytest.fixture
def group(real_nodes: RealNodes, seen_by_nodes: Path) -> Iterator[Group]:
    source = pins(SYSTEM)[PIN]["source"]
    text = text_of(seen_by_nodes / "text", source)
    catalogue = yaml.safe_load((PROJECT / "roles/dataset/vars/catalogue.yml").read_text())
    entry = {
        **catalogue["dataset_catalogue"][DATASET],
        "inputs": [
            {"file": text.name, "address": str(text), "sha256": "recorded"},
            *(
                {"file": given, "address": str(text.parent / name), "sha256": "recorded"}
                for given, name in (("gpt2-vocab.json", FILES[2]), ("gpt2-merges.txt", FILES[3]))
            ),
        ],
    }
    content, places = mirrors.pinned(dict(pins(SYSTEM)[PIN]), seen_by_nodes)
    variables = {
        "cluster_root": BASE,
        "cluster_device": "cpu",
        "cluster_systems": [SYSTEM],
        "megatron_deepspeed_pin_sets": [PIN],
        "trainer_pins": {PIN: content},
        "python_env_interpreters": [python("3.8")],
        "site_mirrors": {"git": places},
        "dataset_names": [DATASET],
        "dataset_own": {DATASET: entry},
        "dataset_preprocess": {DATASET: {"system": SYSTEM, "pin": PIN}},
        "dataset_existing_python": sys.executable,
    }
    group = real_nodes(1, variables=variables)
    yield group
    group.nodes[0].exec(["rm", "-rf", BASE], check=True, timeout=600)


def test_its_pins_are_installed_and_its_program_tokenizes(
    group: Group, tmp_path: Path, seen_by_nodes: Path
) -> None:
    node = group.nodes[0]
    made = play(group.inventory, playbook="software.yml", timeout=1800)
    assert made.rc == 0, made.out
    installed = json.loads(node.read(f"{HOME}/installed.json"))
    assert installed["identity"]["python"].startswith("3.8.")
    versions = installed["identity"]["versions"]
    assert {name: versions[name] for name in DOCUMENTED} == DOCUMENTED
    assert installed["left_out"] == {"apex": "cluster_device is cpu"}
    assert play(group.inventory, playbook="software.yml").changed() == {"node1": 0}
    (tmp_path / "verify.yml").write_text(VERIFY)
    verified = play(group.inventory, playbook=tmp_path / "verify.yml", timeout=900)
    assert verified.rc == 0, verified.out

    staged = play(group.inventory, playbook="data.yml", timeout=900)
    assert staged.rc == 0, staged.out
    home = f"{BASE}/datasets/{DATASET}"
    # As document 001 names it, too.
    for name in (f"{DATASET}_text_document", f"meg-gpt2-{DATASET}_text_document"):
        for end in (".bin", ".idx"):
            same = ["cmp", f"{home}/{name}{end}", str(seen_by_nodes / "text" / f"{SAMPLE}{end}")]
            compared = node.exec(same)
            assert compared.returncode == 0, compared.stdout + compared.stderr
    reader = str(PROJECT / "node/dataset/megatron_mmap.py")
    read = node.exec([sys.executable, reader, "check", f"{home}/{DATASET}_text_document", "--json"])
    summary = json.loads(read.stdout)
    assert (summary["documents"], summary["tokens"]) == (1000, 1_361_845)
    assert play(group.inventory, playbook="data.yml").changed() == {"node1": 0}
