"""verify runs nvidia-smi in a container where the node has a GPU.

These nodes have none, and no engine's daemon: a file where the driver says its version stands in
for the driver, and a script for the engine. What the script is asked, and what verify makes of its
answer, is ours.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.fixtures import Group, RealNodes
from tests.roles.play import play

pytestmark = [pytest.mark.cluster, pytest.mark.nightly("setup", by_day="minutes")]
ROOT_FOLDER = "/opt/trainbench-gpus"
VARIABLES = {
    "cluster_root": ROOT_FOLDER,
    "cluster_device": "cuda",
    "cluster_systems": [],
    "container_runtime_engines": ["docker"],
    "verify_only": ["container_runtime"],
}
# The machine's own docker, which nodes see, is hidden and not touched.
STAND_INS = f"""
mount -t tmpfs tmpfs /proc/driver
mkdir -p /proc/driver/nvidia {ROOT_FOLDER}
echo stand-in >/proc/driver/nvidia/version
cat >{ROOT_FOLDER}/docker
chmod 755 {ROOT_FOLDER}/docker
engine=$(command -v docker) || {{ engine=/usr/local/bin/docker; : >$engine; }}
mount --bind {ROOT_FOLDER}/docker $engine
"""
ENGINE = f"""#!/bin/sh
echo "$@" >{ROOT_FOLDER}/asked
if [ -e {ROOT_FOLDER}/gpu ]; then echo "GPU 0: stand-in"; exit; fi
printf 'docker: no capability [[gpu]]\n\nRun %s for more information\n' "'docker run --help'" >&2
exit 125
"""
AWAY = f"""
umount /proc/driver
engine=$(command -v docker)
umount $engine
[ -s $engine ] || rm $engine
rm -rf {ROOT_FOLDER}
"""
OURS = f"{ROOT_FOLDER}/systems/megatron_lm/20.12-py3"
IMAGE = {"container_runtime_image": "example.org/cuda:12"}


@pytest.fixture
def group(real_nodes: RealNodes) -> Iterator[Group]:
    group = real_nodes(1, variables=VARIABLES)
    group.nodes[0].exec(["sh", "-ec", STAND_INS], input=ENGINE, check=True)
    yield group
    group.nodes[0].exec(["sh", "-ec", AWAY], check=True)


def test_verify_runs_it_in_an_image_and_says_where_there_is_none(
    tmp_path: Path, group: Group
) -> None:
    node = group.nodes[0]

    def verify(**more: str) -> str:
        extra = json.dumps({**more, "verify_out_dir": str(tmp_path)})
        ran = play(group.inventory, "-e", extra, playbook="verify.yml")
        said = " ".join(ran.out.split())
        assert "package docker.io: not installed" in said  # the role was asked
        return said

    none = verify()
    assert "nvidia-smi in a container: not run, for there is no image to run it in; name" in none
    blind = verify(**IMAGE)
    assert "nvidia-smi in a container of docker: docker: no capability [[gpu]]" in blind
    asked = node.read(f"{ROOT_FOLDER}/asked").split()
    assert asked == ["run", "--rm", "--gpus=all", "example.org/cuda:12", "nvidia-smi", "-L"]

    node.exec(["sh", "-c", f"touch {ROOT_FOLDER}/gpu"], check=True)
    assert "nvidia-smi in a container" not in verify(**IMAGE)
    # In an image that setup made, the role trainer's verify runs it.
    node.exec(["sh", "-c", f"mkdir -p {OURS} && echo '{{}}' >{OURS}/image.json"], check=True)
    assert "nvidia-smi in a container" not in verify()
