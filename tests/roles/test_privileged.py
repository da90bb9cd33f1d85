"""Roles that need root, on real nodes: real apt and dpkg, a vendor's repositories of our making.

The nodes have no GPU and no systemd, so the driver is forced on them and its module is never
loaded; services are run by their System V scripts.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.cluster.fixtures import Group, RealNodes
from tests.roles.apt_repository import Vendor
from tests.roles.bare import left_of_us, packages
from tests.roles.play import Ran, play

# minutes of apt where the machine is busy
pytestmark = [pytest.mark.cluster, pytest.mark.network, pytest.mark.timeout(900)]
CLUSTER: dict[str, Any] = {"cluster_root": "/opt/trainbench-root", "cluster_systems": []}
CUDA = {
    "cluster_device": "cuda",
    "cuda_versions": ["11.3", "12.4"],
    "cuda_libraries": ["libcudnn8=8.2.1.32-1+cuda11.3", "libnccl2=2.9.9-1+cuda11.3"],
}
DRIVER = {
    "nvidia_driver_force": True,
    "nvidia_driver_version": "535.104.05",
    "nvidia_driver_fabric_manager": "yes",
}
CONTAINERS = {
    "container_runtime_engines": ["docker"],
    "container_runtime_toolkit_version": "1.16.2",
}
VERIFY = """
- name: Verify one role
  hosts: nodes
  tasks:
    - ansible.builtin.include_role:
        name: "{{ role }}"
        tasks_from: verify
"""
SOURCES = "/etc/apt/sources.list.d/trainbench-nvidia_cuda.sources"
NOUVEAU = "/etc/modprobe.d/trainbench-nouveau.conf"
LIMITS = "/etc/security/limits.d/90-trainbench.conf"


@dataclass
class Site:
    """Nodes, a mirror for them, and what their inventory says."""

    group: Group
    folder: Path
    variables: dict[str, Any] = field(default_factory=dict)

    def run(self, playbook: str, *words: str, **changed: Any) -> Ran:
        extra = json.dumps({**self.variables, **changed})
        path = self.folder / playbook if playbook == "one.yml" else playbook
        return play(self.group.inventory, "-e", extra, *words, playbook=path)

    def verify(self, role: str, **changed: Any) -> Ran:
        (self.folder / "one.yml").write_text(VERIFY)
        return self.run("one.yml", role=role, **changed)

    def installed(self, node: int = 0) -> dict[str, str]:
        """Packages of a node in any state, with version and what dpkg is to do with them."""
        return packages(self.group.nodes[node])

    def on(self, node: int, script: str) -> str:
        return str(self.group.nodes[node].exec(["sh", "-c", script], check=True).stdout)


@contextmanager
def put_back(group: Group) -> Iterator[None]:
    """The nodes must be as they were at the end, whatever a test did; or it is at fault."""
    before = [packages(node) for node in group.nodes]
    try:
        yield
    finally:
        if any(left_of_us(node) for node in group.nodes):
            extra = {**CLUSTER, "teardown": "yes"}
            play(group.inventory, "-e", json.dumps(extra), playbook="teardown.yml")
    for node, found in zip(group.nodes, before, strict=True):
        assert packages(node) == found, node.hostname
        assert left_of_us(node) == "", node.hostname


@contextmanager
def no_other_repository(group: Group) -> Iterator[None]:
    """Nodes of a site without a network: apt has the vendor's mirror alone (and less to read)."""
    place = "/etc/apt/sources.list.d"
    for node in group.nodes:
        node.exec(["sh", "-c", f"mv {place} {place}.away && mkdir {place}"], check=True)
    try:
        yield
    finally:
        for node in group.nodes:
            node.exec(["sh", "-c", f"rm -r {place} && mv {place}.away {place}"], check=True)


class SiteFactory(Protocol):
    def __call__(self, nodes: int, upper_size_mib: int | None = None) -> Site:
        """Nodes whose inventory names the vendor's mirror."""


@pytest.fixture
def site(real_nodes: RealNodes, vendor: Vendor, tmp_path: Path) -> Iterator[SiteFactory]:
    with ExitStack() as stack:

        def make(nodes: int, upper_size_mib: int | None = None) -> Site:
            group = real_nodes(nodes, upper_size_mib=upper_size_mib)
            variables = stack.enter_context(vendor.served(group))
            stack.enter_context(put_back(group))
            return Site(group, tmp_path, {**variables, **CLUSTER})

        yield make


def none_changed(ran: Ran) -> bool:
    return ran.rc == 0 and not any(ran.changed().values())


@pytest.mark.nightly("privileged", by_day="minutes")
def test_cuda_comes_breaks_is_repaired_and_goes(site: SiteFactory) -> None:
    """The whole life of a role, on two nodes."""
    here = site(2)
    here.variables.update(CUDA)
    with no_other_repository(here.group):
        cuda_comes_breaks_is_repaired_and_goes(here)


def cuda_comes_breaks_is_repaired_and_goes(here: Site) -> None:
    nodes = here.group.nodes
    before = [packages(node) for node in nodes]
    checked = here.run("gpu.yml", "--check")
    assert checked.rc == 0, checked.out
    assert all(checked.changed().values()), checked.out
    assert [packages(node) for node in nodes] == before
    assert [left_of_us(node) for node in nodes] == ["", ""]

    made = here.run("gpu.yml")
    assert made.rc == 0, made.out
    again = here.run("gpu.yml")
    assert none_changed(again), again.out
    assert all(counts["ok"] <= 5 for counts in again.recap.values()), again.recap
    # a newer one is in the repository
    assert here.installed(1)["libnccl2"] == "hi  2.9.9-1+cuda11.3"
    for release in ("11.3", "12.4"):
        assert f"release {release}," in here.on(0, f"/usr/local/cuda-{release}/bin/nvcc --version")

    here.on(
        1,
        "apt-mark unhold libnccl2 && apt-get purge -qy libcudnn8 --allow-change-held-packages "
        f"&& rm /usr/local/cuda-11.3/bin/nvcc && chmod 600 {SOURCES}",
    )
    found = here.verify("cuda")
    assert found.recap["node1"]["failed"] == 0, found.out
    assert found.recap["node2"]["failed"] == 1, found.out
    assert (
        f"package libcudnn8: not installed; package libnccl2: not held; file {SOURCES}: mode 0600, "
        "not 0644; nvcc of CUDA 11.3: /usr/local/cuda-11.3/bin/nvcc is not installed"
    ) in " ".join(found.out.split()), found.out
    mended = here.run("gpu.yml")
    assert mended.rc == 0, mended.out
    assert mended.changed()["node1"] == 0, mended.out
    assert mended.changed()["node2"] > 0, mended.out
    assert here.installed(1)["libnccl2"] == "hi  2.9.9-1+cuda11.3"

    gone = here.run("teardown.yml", teardown="yes")
    assert gone.rc == 0, gone.out
    assert [packages(node) for node in nodes] == before


@pytest.mark.nightly("privileged", by_day="minutes")
def test_driver_and_containers_break_are_repaired_and_follow_their_pins(site: SiteFactory) -> None:
    here = site(2)
    here.variables.update({**CUDA, **DRIVER, **CONTAINERS})
    nodes = here.group.nodes
    before = [packages(node) for node in nodes]
    for playbook in ("gpu.yml", "containers.yml"):
        made = here.run(playbook)
        assert made.rc == 0, made.out
        again = here.run(playbook)
        assert none_changed(again), again.out
        assert all(counts["ok"] <= 8 for counts in again.recap.values()), again.recap
    have = here.installed(1)
    # newer ones are in the repository, and the metapackages would take them
    assert have["libnvidia-compute-535"] == "hi  535.104.05-1"
    assert have["nvidia-fabricmanager-535"] == "hi  535.104.05-1"
    assert have["libnvidia-container1"] == "hi  1.16.2-1"
    assert json.loads(nodes[0].read("/etc/docker/daemon.json"))["runtimes"]["nvidia"]

    # One thing of each kind on one node: verify names it, setup mends it and nothing else.
    here.on(
        1,
        "apt-mark unhold libnvidia-compute-535 && "
        f"echo '# mine' >>{NOUVEAU} && service nvidia-fabricmanager stop && "
        "echo '{\"debug\": true}' >/etc/docker/daemon.json && update-rc.d docker disable",
    )
    named = {
        "nvidia_driver": (
            "package libnvidia-compute-535: not held",
            f"file {NOUVEAU}: differs from what setup writes",
            "service nvidia-fabricmanager: stopped",
        ),
        "container_runtime": (
            "file /etc/docker/daemon.json: differs from what setup writes",
            "service docker: not enabled",
        ),
    }
    for role, items in named.items():
        found = here.verify(role)
        assert found.recap["node1"]["failed"] == 0, found.out
        assert found.recap["node2"]["failed"] == 1, found.out
        assert all(item in found.out for item in items), found.out
    for playbook in ("gpu.yml", "containers.yml"):
        mended = here.run(playbook)
        assert mended.rc == 0, mended.out
        assert mended.changed()["node1"] == 0, mended.out
        assert mended.changed()["node2"] > 0, mended.out
    for role in named:
        verified = here.verify(role)
        assert verified.rc == 0, verified.out
    # what somebody else keeps in that file stays
    assert json.loads(nodes[1].read("/etc/docker/daemon.json"))["debug"] is True

    # An older library and a newer driver than are there, both held.
    pins: dict[str, Any] = {
        "cuda_libraries": ["libnccl2=2.8.4-1+cuda11.2"],
        "nvidia_driver_version": "535.183.01",
    }
    found = here.verify("cuda", **pins)
    assert "package libnccl2: 2.9.9-1+cuda11.3, not 2.8.4-1+cuda11.2" in found.out
    moved = here.run("gpu.yml", **pins)
    assert moved.rc == 0, moved.out
    assert here.installed(0)["libnccl2"] == "hi  2.8.4-1+cuda11.2"
    assert here.installed(0)["libnvidia-compute-535"] == "hi  535.183.01-1"
    again = here.run("gpu.yml", **pins)
    assert none_changed(again), again.out

    shown = here.run("teardown.yml", "--check")
    assert "libnvidia-compute-535" in shown.out
    refused = here.run("teardown.yml")
    assert refused.rc != 0
    assert "say so with -e teardown=yes" in " ".join(refused.out.split())
    assert here.installed(0)["libnccl2"]
    gone = here.run("teardown.yml", teardown="yes")
    assert gone.rc == 0, gone.out
    assert [packages(node) for node in nodes] == before


@pytest.mark.nightly("privileged", by_day="minutes")
def test_base_with_the_distributions_own_packages(site: SiteFactory) -> None:
    """Debian's own repositories and chrony, which only must not set this machine's clock (-x)."""
    here = site(3)
    here.variables.update(
        {
            "base_extra_packages": ["libaio-dev"],
            "base_gcc_version": "11",
            "base_time_servers": ["192.0.2.1"],
        }
    )
    nodes = here.group.nodes
    before = [packages(node) for node in nodes]
    assert "systemd-timesyncd" in before[0]  # chrony's package replaces it
    for node in nodes:
        assert here.run("base.yml", "--check").rc == 0
        node.exec(["sh", "-c", "echo 'DAEMON_OPTS=\"-F 1 -x\"' >/etc/default/chrony"], check=True)
    made = here.run("base.yml")
    assert made.rc == 0, made.out
    again = here.run("base.yml")
    assert none_changed(again), again.out
    assert here.on(2, "gcc-11 -dumpversion; g++-11 -dumpversion").split() == ["11", "11"]
    assert "server 192.0.2.1 iburst" in nodes[0].read("/etc/chrony/chrony.conf")
    assert "192.0.2.1" in here.on(0, "chronyc -n sources")

    here.on(
        1,
        "apt-get purge -qy numactl && service chrony stop && "
        f"echo >>{LIMITS} && echo 'pool pool.ntp.org' >>/etc/chrony/chrony.conf",
    )
    found = here.verify("base")
    assert [found.recap[f"node{n}"]["failed"] for n in (1, 2, 3)] == [0, 1, 0], found.out
    assert (
        f"package numactl: not installed; file {LIMITS}: differs from what setup writes; "
        "file /etc/chrony/chrony.conf: differs from what setup writes; service chrony: stopped"
    ) in " ".join(found.out.split()), found.out
    mended = here.run("base.yml")
    assert mended.rc == 0, mended.out
    assert [mended.changed()[f"node{n}"] > 0 for n in (1, 2, 3)] == [False, True, False]
    assert here.verify("base").rc == 0

    # What somebody else has put on one of ours by then keeps it.
    here.on(2, "apt-get install -qy libnuma-dev")
    gone = here.run("teardown.yml", teardown="yes")
    assert gone.rc == 0, gone.out
    assert [packages(node) for node in nodes[:2]] == before[:2]
    here.on(2, "apt-get purge -qy libnuma-dev")
    assert packages(nodes[2]) == before[2]
    assert here.on(0, "pgrep chronyd || true") == ""
    for node in nodes:
        node.exec(["rm", "-f", "/etc/default/chrony"], check=True)


@pytest.mark.nightly("privileged", by_day="minutes")
def test_full_disk_and_interrupted_dpkg(site: SiteFactory) -> None:
    """What was begun is ended by the next run, and still counted as ours."""
    here = site(1, upper_size_mib=600)
    here.variables.update({"base_time_sync": False, "base_extra_packages": ["gcc-11"]})
    node = here.group.nodes[0]
    before = packages(node)
    node.exec(["apt-get", "update", "-q"], check=True)
    node.fill_disk(leave_mib=20)
    full = here.run("base.yml")
    assert full.rc != 0
    assert "the disk is full; free some space and run setup again" in " ".join(full.out.split())
    node.free_disk()
    made = here.run("base.yml")
    assert made.rc == 0, made.out
    assert here.verify("base").rc == 0

    # The power goes while dpkg is at work: unpacked and not configured.
    here.on(
        0,
        "cd /var/tmp && apt-get purge -qy pdsh && apt-get download -q pdsh && "
        "dpkg --unpack pdsh_*.deb && rm pdsh_*.deb",
    )
    found = here.verify("base")
    assert "package pdsh: unpacked" in found.out, found.out
    mended = here.run("base.yml")
    assert mended.rc == 0, mended.out
    assert none_changed(here.run("base.yml"))
    gone = here.run("teardown.yml", teardown="yes")
    assert gone.rc == 0, gone.out
    assert packages(node) == before


RUNFILE = """#!/bin/sh
# stands in for NVIDIA's installer of CUDA 10.2: what it leaves outside its folder is as theirs
for word; do
  case $word in --installpath=*) home=${word#--installpath=} ;; --driver) driver=1 ;; esac
done
if [ -n "$driver" ]; then
  printf '#!/bin/sh\necho 440.33.01\n' >/usr/local/sbin/modinfo
  off=/usr/bin/nvidia-uninstall
  printf '#!/bin/sh\nrm /usr/local/sbin/modinfo $0\n' >$off
  chmod 755 /usr/local/sbin/modinfo $off
  exit
fi
mkdir -p $home/bin
printf '#!/bin/sh\necho Cuda compilation tools, release 10.2, V10.2.89\n' >$home/bin/nvcc
chmod 755 $home/bin/nvcc
ln -sfn $home /usr/local/cuda
echo $home/lib64 >/etc/ld.so.conf.d/cuda-10-2.conf
"""


@pytest.mark.nightly("privileged", by_day="minutes")
def test_driver_and_toolkit_of_document_003_come_from_their_runfile(
    site: SiteFactory, vendor: Vendor
) -> None:
    here = site(1)
    server = here.variables["site_mirrors"]["apt"]["https://nvidia.github.io/libnvidia-container/"]
    (vendor.folder / "containers/cuda.run").write_text(RUNFILE)
    address = "https://developer.download.nvidia.com/compute/cuda/"
    name = "10.2/Prod/local_installers/cuda_10.2.89_440.33.01_linux.run"
    given = {"url": address + name, "sha256": hashlib.sha256(RUNFILE.encode()).hexdigest()}
    mirrors = {"data": {address + name: server + "cuda.run"}}
    here.variables.update(
        {
            "cluster_device": "cuda",
            "cuda_versions": ["10.2"],
            "cuda_runfiles": {"10.2": given},
            "nvidia_driver_version": "440.33.01",
            "nvidia_driver_runfile": {**given, "arguments": ["--silent", "--driver"]},
            "nvidia_driver_force": True,
            "site_mirrors": mirrors,
        }
    )
    found = here.on(0, "readlink -f /usr/local/cuda || true")
    wrong = here.run("gpu.yml", nvidia_driver_runfile={}, cuda_runfiles={"10.2": given})
    assert wrong.rc != 0
    assert "checksum" in wrong.out
    made = here.run("gpu.yml")
    assert made.rc == 0, made.out
    again = here.run("gpu.yml")
    assert none_changed(again), again.out
    assert "release 10.2," in here.on(0, "/usr/local/cuda-10.2/bin/nvcc --version")
    # the toolkit is in its folder alone
    assert here.on(0, "ls /etc/ld.so.conf.d/cuda-10-2.conf /var/lib/trainbench/*.run || true") == ""
    assert here.verify("nvidia_driver").rc == 0
    gone = here.run("teardown.yml", teardown="yes")
    assert gone.rc == 0, gone.out
    assert here.on(0, "ls -d /usr/local/cuda-10.2 /usr/bin/nvidia-uninstall || true") == ""
    assert here.on(0, "readlink -f /usr/local/cuda || true") in (found, "/usr/local/cuda\n")
