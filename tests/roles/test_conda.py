"""roles/conda where the node has no Python of the wanted version.

The real installer cannot be had in a test: what is served here over HTTP, at the place of the
download, is a stand-in. It is a shell script as Miniforge's is, takes the same options, and lays
down a bin/conda that makes an environment from a Python of the machine, which says that it is
3.7.9. Download, checksum, options and variables are what is proved.
"""

import hashlib
import json
import platform
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fixtures import Group, RealNodes
from tests.cluster.inventory import interpreter
from tests.conftest import ROOT
from tests.roles.play import Ran, play

pytestmark = [pytest.mark.cluster, pytest.mark.nightly("setup", by_day="minutes")]
BASE = "/opt/trainbench-conda"
PORT = 8099
PLAYBOOK = """
- hosts: nodes
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: "{{ role }}"
        tasks_from: "{{ entry | default('main') }}"
      vars:
        node_root: "{{ cluster_root }}"
        python_env_path: "{{ cluster_root }}/made/env"
        python_env_python: 3.7.9
"""
INSTALLER = """#!/bin/bash
[ "$1 $2" = "-b -p" ] || exit 2
mkdir -p "$3/bin"
cat >"$3/bin/conda" <<'END'
#!/bin/bash
[ "$1" = --version ] && echo "conda 25.3.1" && exit
echo "$@" >@ROOT@/conda.argv
env >@ROOT@/conda.env
while [ "$1" != --prefix ]; do shift; done
@PYTHON@ -m venv "$2"
echo 'import platform; platform.python_version = lambda: "3.7.9"' \\
  >"$("$2/bin/python3" -c 'import site; print(site.getsitepackages()[0])')/sitecustomize.py"
END
chmod +x "$3/bin/conda"
exit
"""
# Serves one file, with ranges, and writes down from where it was asked for.
SERVER = """
import http.server, re, sys
content = open(sys.argv[1], "rb").read()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        wanted = re.fullmatch(r"bytes=(\\d+)-", self.headers.get("Range", ""))
        start = int(wanted.group(1)) if wanted else 0
        with open(sys.argv[2], "a") as log:
            log.write(f"{start} {self.path}\\n")
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        try:
            self.wfile.write(content[start:])
        except OSError:
            pass  # the client's disk is full
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3])), Handler).serve_forever()
"""


@dataclass
class Site:
    """A node with a small disk, and a server with the stand-in."""

    group: Group
    folder: Path
    sha256: str

    def run(self, role: str = "python_env", entry: str = "main", **changed: Any) -> Ran:
        playbook = self.folder / "conda.yml"
        playbook.write_text(PLAYBOOK)
        checksums = {"conda_sha256": {platform.machine(): self.sha256}}
        extra = {"role": role, "entry": entry, **checksums, **changed}
        return play(self.group.inventory, "-e", json.dumps(extra), playbook=playbook)


@pytest.fixture
def site(real_nodes: RealNodes, tmp_path: Path) -> Iterator[Site]:
    shared = ROOT / "build" / f"conda-{uuid.uuid4().hex[:8]}"  # nodes hide /tmp
    shared.mkdir(parents=True)
    text = INSTALLER.replace("@ROOT@", BASE).replace("@PYTHON@", interpreter())
    content = text.encode() + b"#" * (24 << 20)
    (shared / "installer").write_bytes(content)
    (shared / "server.py").write_text(SERVER)
    public = "https://github.com/conda-forge/miniforge/releases/download"
    mirrors = {
        "conda": {
            public: f"http://127.0.0.1:{PORT}",
            "https://conda.anaconda.org/": "https://conda.example.org/",
        }
    }
    variables: dict[str, Any] = {"cluster_root": f"{BASE}/root", "site_mirrors": mirrors}
    variables |= {"cluster_systems": [], "setup_privileged": False}
    group = real_nodes(1, variables=variables, upper_size_mib=160)
    node = group.nodes[0]
    node.exec(["mkdir", "-p", BASE], check=True)
    words = [str(shared / "server.py"), str(shared / "installer"), f"{BASE}/asked", str(PORT)]
    server = node.popen([interpreter(), "-I", *words])
    yield Site(group, tmp_path, hashlib.sha256(content).hexdigest())
    server.kill()
    server.wait()
    node.free_disk()
    node.exec(["rm", "-rf", BASE], check=True)
    shutil.rmtree(shared)


def test_brings_a_python_that_the_node_lacks(site: Site) -> None:
    node = site.group.nodes[0]
    wrong = site.run(conda_sha256={platform.machine(): "0" * 64})
    assert wrong.rc != 0
    assert f"has sha256 {site.sha256}, not {'0' * 64}" in wrong.out
    assert node.exec(["ls", f"{BASE}/root/conda-installer"]).stdout == ""

    node.fill_disk(leave_mib=10)
    full = site.run()
    assert full.rc != 0
    assert f"the disk of {BASE}/root/conda-installer is too small for" in full.out
    assert node.exec(["sh", "-c", f"ls {BASE}/root/conda-installer/*.part"]).returncode != 0
    node.free_disk()

    made = site.run()
    assert made.rc == 0, made.out
    starts = [int(line.split()[0]) for line in node.read(f"{BASE}/asked").splitlines()]
    assert starts == [0, 0, 0]
    record = json.loads(node.read(f"{BASE}/root/made/env.json"))
    assert record["made"] == "conda"
    assert node.read(f"{BASE}/root/made/lock.txt").startswith("# python 3.7.9\n")
    words = node.read(f"{BASE}/conda.argv")
    assert "--override-channels --channel https://conda.example.org/conda-forge" in words
    assert "python=3.7.9 pip" in words
    variables = dict(
        line.partition("=")[::2] for line in node.read(f"{BASE}/conda.env").split("\n")
    )
    assert variables["HOME"] != "/root"
    assert variables["CONDARC"].startswith(variables["HOME"])

    assert site.run().changed() == {"node1": 0}
    assert site.run(entry="verify").rc == 0
    assert site.run("conda").changed() == {"node1": 0}
    node.exec(["rm", f"{BASE}/root/conda/bin/conda"], check=True)
    broken = site.run("conda", "verify")
    assert f"{BASE}/root/conda has no conda that runs, not Miniforge 25.3.1-0" in broken.out
    assert site.run("conda").changed() == {"node1": 2}  # downloaded, and installed
    assert site.run("conda", "verify").rc == 0
    gone = play(site.group.inventory, "-e", "teardown=yes", playbook="teardown.yml")
    assert gone.changed() == {"node1": 1}, gone.out
    assert node.exec(["ls", f"{BASE}/root"]).stdout.split() == ["made"]
