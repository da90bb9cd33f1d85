"""Runs in containers on real Slurm: by Debian's podman without root; pyxis and Apptainer stand in.

Those two cannot be had here. In place of pyxis stands a SPANK plugin that gives srun its options
and checks them (pyxis_stub.c), in place of Apptainer a script with its options: both start the
command uncontained, with the variables that a text in place of the image has. What plans, starts,
watches and ends is real; the trainer is the stand-in's, as a module that `python3 -m` finds.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import stand_in
from tests.cluster.node import Node
from tests.cluster.slurm import SlurmCluster
from tests.on_nodes.campaign import wait
from tests.on_slurm.campaign import SlurmBench, chown, user_folder
from tests.on_slurm.tiny_image import write_image

pytestmark = [pytest.mark.cluster, pytest.mark.nightly("slurm", by_day="row")]

PLAIN = "PATH=/usr/local/bin:/usr/bin:/bin\n"
IMAGE = f"{PLAIN}VALUE=the image's\n"
APPTAINER = """#!/bin/sh
set -e
[ "$1" = exec ] && shift
while :; do
  case "$1" in
    --nv) ;;
    --home=*) cd "${1#*=}" ;;
    --pwd=*) pwd=${1#*=} ;;
    --bind=*:*) bind=${1#*=}; [ -e "${bind%%:*}" ] || { echo "no ${bind%%:*}" >&2; exit 255; } ;;
    *) break ;;
  esac
  shift
done
image=$1
shift
set -a
while IFS== read -r name value; do eval "$name=\\$value"; done <"$image"
cd "$pwd"
exec "$@"
"""

# What a node of a site has and a test node has not; the user has no range in /etc/subuid.
PODMAN = """
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get update -q && apt-get install -qy --no-install-recommends podman runc
mkdir -p /etc/containers/containers.conf.d /dev/mqueue /sys/fs/cgroup/devices
cat > /etc/containers/containers.conf.d/site.conf <<END
[engine]
events_logger = "file"
runtime = "runc"
END
mount -t mqueue none /dev/mqueue
mount -t cgroup -o devices none /sys/fs/cgroup/devices
chmod 755 /sys/fs/cgroup
mount -t tmpfs -o size=1g,mode=1777 none /scratch # overlays lie on no overlay, as a node's root is
"""
TIDY = """
for place in /scratch /dev/mqueue /sys/fs/cgroup/devices; do
  mountpoint -q $place && umount -l $place
done
"""

PLACED = (
    *("/etc/slurm/plugstack.conf", "/usr/local/bin/apptainer"),
    *("/usr/local/bin/enroot", "/run/enroot-said"),
)


def root_with(slurm: SlurmCluster, image: str, text: str = IMAGE) -> Path:
    """A cluster_root whose pin set `container` is a text, in a file of that name."""
    root = slurm.shared / "contained"
    stand_in.install(root, "/usr/bin/python3")
    (pin,) = (root / "systems" / "torch_gpt").iterdir()
    home = pin.with_name("container")
    pin.rename(home)
    shutil.rmtree(home / "env")
    module = home / "src" / "torch" / "distributed" / "run.py"
    module.parent.mkdir(parents=True)
    module.write_text(stand_in.TRAINER.format(python="/usr/bin/python3"))
    (home / image).write_text(text)
    chown(root)
    return root


def place(node: Node, path: str) -> Path:
    return Path(f"/proc/{node.pid}/root{path}")


@pytest.fixture
def site(slurm_cluster: SlurmCluster, tmp_path: Path) -> Iterator[SlurmCluster]:
    """Slurm, and nothing of an engine left on its nodes afterwards."""
    yield slurm_cluster
    for node in slurm_cluster.cluster.nodes:
        node.exec(["sh", "-c", TIDY])
        for path in PLACED:
            place(node, path).unlink(missing_ok=True)
    shutil.rmtree(slurm_cluster.shared / "contained", ignore_errors=True)


def install_pyxis(slurm: SlurmCluster) -> None:
    said = slurm.run(["srun", "--version"], check=True).stdout
    major, minor, micro = map(int, re.findall(r"\d+", said)[:3])
    version = (major << 16) + (minor << 8) + micro
    plugin = slurm.shared / "pyxis_stub.so"
    source = Path(__file__).with_name("pyxis_stub.c")
    argv = ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(plugin), str(source)]
    subprocess.run([*argv, f"-DSLURM_VERSION_NUMBER={version}"], check=True)
    for node in slurm.cluster.nodes:
        place(node, "/etc/slurm/plugstack.conf").write_text(f"required {plugin}\n")
        place(node, "/run/enroot-said").touch()
        place(node, "/usr/local/bin/enroot").write_text('#!/bin/sh\necho "$@" >>/run/enroot-said\n')
        for path in ("/usr/local/bin/enroot", "/run/enroot-said"):
            place(node, path).chmod(0o777)


def install_apptainer(slurm: SlurmCluster) -> None:
    for node in slurm.cluster.nodes:
        path = place(node, "/usr/local/bin/apptainer")
        path.write_text(APPTAINER)
        path.chmod(0o755)


def bench(slurm: SlurmCluster, name: str, root: Path, **variables: Any) -> SlurmBench:
    matrix = {
        "name": name,
        "defaults": {
            **{"system": "torch_gpt", "pin": "container", "model": "gpt2-tiny", "train_iters": 3},
            **{"nodes": 2, "devices_per_node": 1, "env": {"ACT": "show"}},
        },
        "axes": {"zero_stage": [0, 1]},
        "warmup_iters": 0,
    }
    keys = {"cluster_root": str(root), "cluster_env": {"HF_TOKEN": "zzz"}, **variables}
    return SlurmBench(slurm, user_folder(slurm, name), matrix, keys)


def run_well(campaign: SlurmBench, value: str | None) -> list[dict[str, Any]]:
    """Run it; the rows of run.json. What the trainer printed is of the container."""
    ran = campaign.run(env={"VALUE": "the user's", "LD_LIBRARY_PATH": "/opt/modules/lib"})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    attempts = sorted(campaign.campaign.glob("*/repeat1/attempt1"))
    assert len(attempts) == 2
    for attempt in attempts:
        outcome = json.loads((attempt / "outcome.json").read_text())
        log = (attempt / "nodes/0001-rank1/launcher.log").read_text()
        assert outcome["status"] == "ok", (outcome, log)
        assert f"VALUE {value!r}" in log
        assert "TOKEN of 3 letters" in log
        files = [path for path in attempt.rglob("*") if path.is_file()]
        assert not [path for path in files if b"zzz" in path.read_bytes()]
    return [json.loads((attempt / "run.json").read_text()) for attempt in attempts]


@pytest.mark.parametrize("mode", ["job", "allocation"])
def test_srun_has_the_supervisor_in_a_container_of_pyxis(site: SlurmCluster, mode: str) -> None:
    install_pyxis(site)
    alone = mode == "job"
    root = root_with(site, "image.sqsh", IMAGE if alone else PLAIN)
    campaign = bench(site, f"pyxis-{mode}", root, slurm_mode=mode)
    run_well(campaign, "the image's" if alone else None)  # the user's shell has another
    told = [
        (root / f"systems/torch_gpt/container/image.sqsh.told.{rank}").read_text().splitlines()
        for rank in (0, 1)
    ]
    mounts = f"--container-mounts={root}:{root},{campaign.campaign}:{campaign.campaign}"
    removed = [place(node, "/run/enroot-said").read_text().split() for node in site.compute]
    removed = [said for said in removed if said]
    assert len(removed) == (2 if mode == "allocation" else 0)  # on the nodes of the allocation
    for lines in told:
        assert lines.count(mounts) == lines.count("--no-container-mount-home=yes") == 2
        named = {line for line in lines if line.startswith("--container-name=trainbench-")}
        assert len(named) == (mode == "allocation"), named
        names = {f"pyxis_{line.partition('=')[2]}" for line in named}
        assert all(said[:2] == ["remove", "--force"] for said in removed)
        assert all(set(said[2:]) == names for said in removed)


def test_a_missing_image_is_named(site: SlurmCluster) -> None:
    install_pyxis(site)
    root = root_with(site, "another.sqsh")
    campaign = bench(site, "gone", root)
    ran = campaign.run()
    assert ran.returncode != 0
    assert "pyxis: no such image" in ran.stdout


def test_the_supervisor_starts_apptainer(site: SlurmCluster) -> None:
    install_apptainer(site)
    root = root_with(site, "image.sif")
    (first, _) = run_well(bench(site, "apptainer", root), "the image's")
    assert first["nodes"][0]["argv"][:2] == ["apptainer", "exec"]


@pytest.mark.network
def test_podman_without_root_runs_a_file_of_the_root(site: SlurmCluster) -> None:
    used = site.compute[:2]
    for node in used:
        node.exec(["sh", "-c", PODMAN], check=True, timeout=300)
    root = root_with(site, "image.txt")
    image = root / "systems/torch_gpt/container/image.tar"
    write_image(image, "localhost/trainbench/torch_gpt:container", {"VALUE": "of the image"})
    keys: dict[str, Any] = {
        "cluster_container_engine": "podman",
        # A test node's /proc has mounts in it, so that nobody without root may mount another.
        "cluster_container_options": ["--pid=host"],
        "slurm_nodelist": ",".join(node.hostname for node in used),
    }
    campaign = bench(site, "podman", root, **keys)
    for run in run_well(campaign, "of the image"):
        assert f"docker-archive:{image}" in run["nodes"][0]["argv"]
    assert engines_left(used) == []

    cancelled = bench(site, "cancelled", root, **keys)
    text = cancelled.matrix.read_text()
    cancelled.matrix.write_text(text.replace("ACT: show", "STEP_S: '30'"))
    cancelled.start("--only", "zero_stage=0")
    wait(lambda: len(engines_left(used)) >= 2, 400, "a container on both nodes")
    number, *_ = site.jobs()[0].split()
    site.run(["scancel", number], check=True)
    assert cancelled.finish()[0] == 1
    wait(lambda: engines_left(used) == [], 20, "the end of both containers")


def engines_left(nodes: Sequence[Node]) -> list[str]:
    """What podman and the trainer in it have running."""
    lines = [
        line for node in nodes for line in node.exec(["ps", "-eo", "args"]).stdout.splitlines()
    ]
    return [line for line in lines if "conmon" in line or line.endswith("podman")]
