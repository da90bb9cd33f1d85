"""Each system's role on a real node, with `site_mirrors` naming local git mirrors: sources alone.

Everything is real but the packages: the pin's environment is "somebody else's"
(`<system>_existing_python`), a venv that has the names of the packages and nothing in them, so that
no gigabytes are installed. A mirror may lack a large file; then a commit without it stands in for
the pinned one, every other file the same (tests/upstream/mirrors.py).
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from plugins.filter.pins import pin_plans
from runner.base.paths import PROJECT
from runner.systems.common.pins import pins
from runner.systems.common.registry import system_names
from tests.cluster.fixtures import Group, RealNodes
from tests.cluster.node import Node
from tests.roles.play import Ran, play
from tests.upstream import mirrors

BASE = "/opt/trainbench-sources"
ENV = f"{BASE}/env"
MEMORY = (
    '                        cmd = "nvidia-smi --query-gpu=timestamp,name,driver_version,'
    "utilization.gpu,utilization.memory,memory.total,memory.free,memory.used "
    '--format=csv"'
)
LIBAI = {
    "src/libai/engine/default.py": [
        "            #hooks.PeriodicCheckpointer("
        "self.checkpointer, self.cfg.train.checkpointer.period),"
    ],
    "src/libai/engine/trainer.py": [
        *("import os", "                    if self.iter == 99:", MEMORY),
        "                        os.system(cmd)",
    ],
}
COMPUTE_STREAM = {
    "src/libai/models/utils/graph_base.py": [
        "        if not zero_optim and (",
        "            dist_util.is_tensor_model_parallel() "
        "or dist_util.is_pipeline_model_parallel()",
    ]
}
LM = "src/Megatron-LM-v1.1.5-3D_parallelism"
FIRST_OF_A_NODE = {
    f"{LM}/megatron/data/gpt2_dataset.py": ["    if get_args().local_rank in (None, 0):"]
}
BIGSCIENCE = {
    "src/megatron/data/gpt_dataset.py": [
        "    if int(os.environ.get('LOCAL_RANK', torch.distributed.get_rank())) == 0:"
    ]
}
CURRENT = {
    "src/megatron/model/transformer.py": [
        "        query_layer = query_layer.reshape(output_size[2],"
    ],
    "src/megatron/training.py": [
        "        from deepspeed.compression.compress import init_compression"
    ],
}
CORE = {
    "src/megatron/training/initialize.py": [
        '    if int(os.environ.get("LOCAL_RANK", torch.distributed.get_rank())) == 0:'
    ]
}
CORE_0_18 = {
    **CORE,
    "src/megatron/core/tokenizers/text/libraries/huggingface_tokenizer.py": [
        '            elif tokenizer_path == "gpt2":'
    ],
}
INF = ["from math import inf"]
DEEPSPEED = "sources/deepspeed/deepspeed/runtime"
# <system>/<pin>: file to whole lines that a document, or our own patch, wants in it.
LINES: dict[str, dict[str, list[str]]] = {
    "libai/9fc504c4": {**LIBAI, **COMPUTE_STREAM},
    "libai/33adb976": {**LIBAI, **COMPUTE_STREAM},
    "libai/9fc504c4-cpu": {
        **LIBAI,
        "src/libai/layers/layer_norm.py": ['        if x.placement.type == "cpu":'],
    },
    "megatron_deepspeed/oneflow2022": BIGSCIENCE,
    "megatron_deepspeed/e52bdabb": {
        **BIGSCIENCE,
        "src/requirements.txt": [
            *("numpy==1.22.0", "black==21.4b0", "isort>=5.5.4"),
            "DeepSpeed @ git+https://github.com/microsoft/DeepSpeed.git@v0.8.0",
        ],
        "sources/apex/setup.py": [
            "        # allow minor diffs",
            "        if bare_metal_minor != torch_binary_minor: return",
        ],
    },
    "megatron_deepspeed/current": CURRENT,
    "megatron_deepspeed/current-without-apex": {
        **CURRENT,
        "src/megatron/model/__init__.py": ["    from .rmsnorm import RMSNorm"],
    },
    "megatron_lm/v1.1.5": {
        **FIRST_OF_A_NODE,
        f"{LM}/megatron/learning_rates.py": [
            "from torch.optim.lr_scheduler import _LRScheduler",
            "class AnnealingLR(_LRScheduler):",
        ],
        f"{LM}/tools/preprocess_whitespace.py": ["    args.model_parallel_size = 1"],
    },
    "megatron_lm/v1.1.5-unedited": {
        **FIRST_OF_A_NODE,
        f"{LM}/megatron/learning_rates.py": ["class AnnealingLR(object):"],
    },
    "megatron_lm/a79272cc": {
        "src/Megatron-LM/data_utils/lazy_loader.py": [
            "            torch.distributed.get_rank() % torch.cuda.device_count() == 0:"
        ]
    },
    "megatron_core/core_v0.13.0": CORE,
    "megatron_core/core_v0.13.0-torch-2.11": CORE,
    "megatron_core/core_v0.18.2": CORE_0_18,
    "megatron_core/core_v0.18.2-torch-2.11": CORE_0_18,
    "megatron_core/core_v0.18.2-te": CORE_0_18,
    "oneflow_gpt/osdi": {
        "src/LanguageModeling/gpt-2/src/train_gpt2.sh": [
            *("n_head=12", "n_embd=768", "n_layer=12", "num_node=1"),
            'node_ips="10.11.0.2,10.11.0.3"',
        ]
    },
    "ascend_gpt/2e49c279": {
        "sources/Megatron-DeepSpeed/megatron/optimizer/clip_grads.py": [
            "from torch._six import inf"
        ]
    },
    "ascend_gpt/2e49c279-torch2": {
        "sources/Megatron-DeepSpeed/megatron/optimizer/clip_grads.py": INF,
        f"{DEEPSPEED}/utils.py": INF,
        f"{DEEPSPEED}/zero/stage_1_and_2.py": INF,
        f"{DEEPSPEED}/zero/stage3.py": INF,
    },
    "ascend_gpt/b4d4a0e": {"src/megatron/optimizer/clip_grads.py": ["from torch._six import inf"]},
}
PINS = [
    (system, pin)
    for system in system_names()
    for pin, content in pins(system).items()
    if "source" in content and "image" not in content
]
# A venv's folder of packages gets their names and versions, as pip would write them.
NAMES = """
import json, os, sys, sysconfig
for name, version in json.load(sys.stdin):
    folder = f"{sysconfig.get_path('purelib')}/{name.replace('-', '_')}-{version}.dist-info"
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "METADATA"), "w") as file:
        file.write(f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
"""


@dataclass
class Site:
    """A node, the role's variables, and the pin set as the mirrors have it."""

    group: Group
    pin: dict[str, Any]
    variables: dict[str, Any] = field(default_factory=dict)

    @property
    def node(self) -> Node:
        return self.group.nodes[0]

    def run(self, **changed: Any) -> Ran:
        extra = json.dumps({**self.variables, **changed})
        return play(self.group.inventory, "-e", extra, playbook="software.yml", timeout=900)


def device(system: str, pin: str) -> str:
    """Apex is a source on CUDA alone."""
    return "npu" if system == "ascend_gpt" and pin != "b4d4a0e" else "cuda"


def package_names(system: str, pin: str, content: dict[str, Any]) -> list[tuple[str, str]]:
    """Name and version of what the role looks for in an environment."""
    site = {"system": system, "root": BASE, "roles": PROJECT / "roles"}
    plan = pin_plans({pin: content}, [pin], {**site, "device": device(system, pin)})[0]
    found = {}
    for step in plan["steps"]:
        for text in step.get("requirements", []):
            name, _, version = text.partition("==")
            found[name.partition("[")[0]] = version
        if "wheel" in step:
            found[step["wheel"]["project"]] = step["wheel"]["version"]
        if "project" in step:
            found[step["project"]] = "0.1"
    return list(found.items())


@pytest.fixture
def site(system: str, pin: str, seen_by_nodes: Path, real_nodes: RealNodes) -> Iterator[Site]:
    content, own = mirrors.pinned(dict(pins(system)[pin]), seen_by_nodes)
    variables = {
        "cluster_root": f"{BASE}/root",
        "cluster_device": device(system, pin),
        "cluster_systems": [system],
        "site_mirrors": {"git": own},
        f"{system}_pin_sets": [pin],
        f"{system}_existing_python": f"{ENV}/bin/python3",
    }
    group = real_nodes(1, variables=variables)
    node = group.nodes[0]
    hidden = [at for at in own.values() if node.exec(["test", "-e", at]).returncode]
    if hidden:
        pytest.skip(f"the node does not see {hidden[0]}: it hides /tmp; keep mirrors elsewhere")
    base = str(Path(sys.executable).resolve())
    node.exec([base, "-m", "venv", "--without-pip", ENV], check=True)
    names = json.dumps(package_names(system, pin, content))
    node.exec([f"{ENV}/bin/python3", "-c", NAMES], input=names, text=True, check=True)
    changed = content != pins(system)[pin]
    yield Site(group, content, {"trainer_pins": {pin: content}} if changed else {})
    node.exec(["rm", "-rf", BASE], check=True, timeout=900)  # 84,000 files of the model zoo


def test_every_pin_with_a_source_has_its_lines() -> None:
    assert {f"{system}/{pin}" for system, pin in PINS} == set(LINES)


@pytest.mark.cluster
@pytest.mark.nightly("upstream")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("system", "pin"), PINS, ids=[f"{s}/{p}" for s, p in PINS])
def test_the_role_clones_patches_and_keeps_a_pin(system: str, pin: str, site: Site) -> None:
    made = site.run()
    assert made.rc == 0, made.out
    assert made.changed()["node1"] > 0
    home = f"{BASE}/root/systems/{system}/{pin}"
    for path, lines in LINES[f"{system}/{pin}"].items():
        text = site.node.read(f"{home}/{path}").splitlines()
        assert [line for line in lines if line not in text] == [], path
    head = site.node.exec(["git", "-C", f"{home}/src", "rev-parse", "HEAD"], check=True)
    assert head.stdout.strip() == site.pin["source"]["commit"]
    again = site.run()
    assert again.changed() == {"node1": 0}, again.out

    # An edit is refused by name, and nobody's work is lost.
    version = f"{site.pin['source']['version']} ({site.pin['source']['commit'][:12]})"
    edited = f"{home}/src/README.md"
    site.node.exec(["sh", "-c", f"echo edited >>{edited}"], check=True)
    refused = site.run()
    assert refused.rc != 0
    assert f"{home}/src is not {version} with its" in refused.out
    assert "README.md | " in refused.out
    assert "set source_tree_reset=true to have it put right, or remove the folder" in refused.out
    assert site.node.read(edited).endswith("edited\n")

    # So is a tree of another version.
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    other = ["git", "-C", f"{home}/src", *who, "commit", "-q", "--allow-empty", "-m", "another"]
    site.node.exec(other, check=True, timeout=600)
    moved = site.run()
    assert moved.rc != 0
    assert f"not at {version}" in moved.out
    assert "set source_tree_reset=true" in moved.out
    mended = site.run(source_tree_reset=True)
    assert mended.rc == 0, mended.out
    assert site.run().changed() == {"node1": 0}
