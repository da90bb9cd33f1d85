"""Two nodes without a route are set up by the inventory's `site_proxy` alone.

The proxy is tinyproxy on this machine, which the nodes reach by `ssh -R`, as the how-to says.
Wheels, a repository and a vendor's packages are served on this machine's own 127.0.0.1.
"""

import hashlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fixtures import Group, RealNodes
from tests.cluster.system import wait_for
from tests.roles import wheels
from tests.roles.apt_repository import Vendor
from tests.roles.play import play
from tests.roles.test_privileged import RUNFILE

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.network,
    pytest.mark.nightly("setup", by_day="minutes"),
]
ROOT_FOLDER = "/opt/trainbench-proxied"
PASSWORD = "s3cr3t-of-the-proxy"
BARE = ["numactl", "rdma-core", "ibverbs-utils"]  # of the role base, from the real Debian
GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
CUDA = "https://developer.download.nvidia.com/compute/cuda/10.2/cuda_10.2.89_440.33.01_linux.run"


@contextmanager
def running(argv: list[str], port: int) -> Iterator[None]:
    """A program that listens on a port of 127.0.0.1."""
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        try:
            assert wait_for(lambda: listens(port), 20)
            yield
        finally:
            program.terminate()


def free_port() -> int:
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return int(each.getsockname()[1])


def listens(port: int) -> bool:
    return f":{port:04X} 00000000:0000 0A" in Path("/proc/net/tcp").read_text()


@contextmanager
def proxied(group: Group, folder: Path) -> Iterator[str]:
    """The address of a proxy on each node, which is this machine's."""
    port = free_port()
    (folder / "tinyproxy.conf").write_text(
        f"Port {port}\nListen 127.0.0.1\nAllow 127.0.0.1\nBasicAuth train {PASSWORD}\n"
        f'LogLevel Connect\nLogFile "{folder}/proxy.log"\n'
    )
    with ExitStack() as stack:
        proxy = ["tinyproxy", "-d", "-c", str(folder / "tinyproxy.conf")]
        stack.enter_context(running(proxy, port))
        for node in group.nodes:
            node.exec(["ip", "route", "del", "default"], check=True)
            assert node.exec(["ip", "route", "get", "192.0.2.1"]).returncode != 0
            config = str(group.cluster.directory / "ssh_config")
            words = ["-N", "-o", "ExitOnForwardFailure=yes", "-R", f"8888:127.0.0.1:{port}"]
            ssh = subprocess.Popen(["ssh", "-F", config, *words, node.hostname])
            stack.callback(ssh.wait)
            stack.callback(ssh.terminate)
        yield f"http://train:{PASSWORD}@127.0.0.1:8888"


@contextmanager
def command_lines() -> Iterator[set[str]]:
    """Those of all processes, here and on the nodes, that hold the password."""
    found: set[str] = set()
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.02):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    words = path.read_bytes()
                except OSError:
                    continue
                if PASSWORD.encode() in words:
                    found.add(words.decode(errors="replace"))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def pin_of_a_trainer(www: Path, address: str) -> dict[str, Any]:
    """A wheel of a page, a wheel by its address and a repository, all below `www`."""
    wheels.write(www / "page", "alpha", "1.0")
    wheels.write(www / "more", "beta", "1.0")
    (beta,) = (www / "more").iterdir()
    repository = www / "trainer.git"
    subprocess.run([*GIT, "init", "-q", str(repository)], check=True)
    (repository / "train.py").write_text("print('hello')\n")
    for words in (["add", "."], ["commit", "-qm", "a"], ["update-server-info"]):
        subprocess.run([*GIT, *words], cwd=repository, check=True)
    head = subprocess.run(
        [*GIT, "rev-parse", "HEAD"], cwd=repository, check=True, capture_output=True, text=True
    )
    digest = hashlib.sha256(beta.read_bytes()).hexdigest()
    return {
        "requirements": ["alpha==1.0"],
        "wheels": [{"url": f"{address}/more/{beta.name}", "sha256": digest}],
        "imports": ["alpha", "beta"],
        "source": {
            "repository": f"{address}/trainer.git/.git",
            "commit": head.stdout.strip(),
            "version": "1",
        },
    }


@pytest.mark.timeout(1800)  # torch and base's packages, twice
def test_the_proxy_is_all_that_nodes_need(
    tmp_path: Path, real_nodes: RealNodes, vendor: Vendor
) -> None:
    www, port = tmp_path / "www", free_port()
    address = f"http://127.0.0.1:{port}"
    www.mkdir()
    (www / "vendor").symlink_to(vendor.folder)
    (www / "cuda.run").write_text(RUNFILE)
    variables = {
        "cluster_root": ROOT_FOLDER,
        "cluster_systems": ["torch_gpt", "command"],
        "cluster_devices_per_node": 1,
        "base_time_sync": False,  # the clock is this machine's
        "command_pins": {"own": pin_of_a_trainer(www, address)},
        "python_env_find_links": f"{address}/page/",
    }
    # Disks of their own: what is taken off the nodes is gone for this test alone.
    group = real_nodes(2, variables=variables, upper_size_mib=6000)
    for node in group.nodes:
        node.exec(["apt-get", "purge", "-qy", *BARE], check=True)
        node.exec(["sh", "-c", "rm -rf /var/lib/apt/lists/*"], check=True)
    server = [sys.executable, "-m", "http.server", str(port), "-b", "127.0.0.1", "-d", str(www)]
    with ExitStack() as stack:
        stack.enter_context(running(server, port))
        proxy = stack.enter_context(proxied(group, tmp_path))
        (group.inventory / "group_vars/all/site.yml").write_text(json.dumps({"site_proxy": proxy}))
        shown = stack.enter_context(command_lines())

        made = play(group.inventory, timeout=1200)
        assert made.rc == 0, made.out
        again = play(group.inventory)
        assert again.changed() == {"node1": 0, "node2": 0}, again.out

        runfile = {"url": CUDA, "sha256": hashlib.sha256(RUNFILE.encode()).hexdigest()}
        site = vendor.variables(f"{address}/vendor")
        site["site_mirrors"]["data"] = {CUDA: f"{address}/cuda.run"}
        cuda = {"cluster_device": "cuda", "cuda_versions": ["10.2", "11.3"]}
        extra = json.dumps({**site, **cuda, "cuda_runfiles": {"10.2": runfile}})
        more = play(group.inventory, "-e", extra, playbook="gpu.yml")
        assert more.rc == 0, more.out
    assert not shown
    assert PASSWORD not in made.out + again.out + more.out
    for node in group.nodes:
        nvcc = node.exec(["/usr/local/cuda-10.2/bin/nvcc", "--version"], check=True)
        assert "release 10.2" in nvcc.stdout
        kept = node.exec(["grep", "-rlsF", PASSWORD, ROOT_FOLDER, "/etc", "/run", "/var/lib"])
        assert kept.stdout == ""
