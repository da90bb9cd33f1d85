"""A vendor's apt repositories, small, signed and served: stands in for NVIDIA's, for no other.

NVIDIA's repositories cannot be had where the tests run, and hold gigabytes. These hold real .deb
files of the same names, versions and dependencies, made by dpkg-deb, with a stand-in in place of
what each brings: scripts for nvcc and nvidia-smi that print what the real ones print, a sleeping
process for fabric manager's and Docker's daemons (a test node has no cgroups for the real one).
Everything from the address on is real: InRelease with a throw-away OpenPGP key, apt, dpkg, and
Ansible's modules. The roles come here through `site_mirrors`, as at a site with its own mirror.
"""

import gzip
import hashlib
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fixtures import Group

SYSTEMS = ("ubuntu2004", "ubuntu2204", "ubuntu2404", "debian11", "debian12", "debian13")
NVCC = """#!/bin/sh
# stands in for nvcc: prints what the real one prints
cat <<END
nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2021 NVIDIA Corporation
Built on Mon_May__3_19:15:13_PDT_2021
Cuda compilation tools, release {release}, V{full}
Build cuda_{release}.r{release}/compiler.29920130_0
END
"""
NVIDIA_SMI = """#!/bin/sh
# stands in for nvidia-smi on a node without a GPU: two rows for each query of devices
for word; do case $word in --query-gpu=*) fields=${{word#*=}} ;; --query-*) exit 0 ;; esac; done
for index in 0 1; do
    row=
    for field in $(echo "$fields" | tr , ' '); do
        case $field in
        index) value=$index ;;
        name) value="NVIDIA H200" ;;
        driver_version) value={version} ;;
        memory.total) value=143771 ;;
        *) value="[N/A]" ;;
        esac
        row="$row${{row:+, }}$value"
    done
    echo "$row"
done
"""
# A System V script, for nodes without systemd; the unit that real packages have is not needed here.
DAEMON = """#!/bin/sh
### BEGIN INIT INFO
# Provides:          {name}
# Required-Start:    $remote_fs
# Required-Stop:     $remote_fs
# Default-Start:     2 3 4 5
# Default-Stop:      0 1 6
# Short-Description: stands in for {name}
### END INIT INFO
pid=/run/{name}.pid
runs() {{ [ -e $pid ] && kill -0 "$(cat $pid)" 2>/dev/null; }}
case "$1" in
start) runs || {{ setsid sleep 100000 </dev/null >/dev/null 2>&1 & echo $! >$pid; }} ;;
stop) runs && kill "$(cat $pid)"; rm -f $pid; true ;;
restart) $0 stop; $0 start ;;
status) runs || exit 3 ;;
esac
"""


@dataclass(frozen=True)
class Deb:
    """One package: its relations as dpkg writes them, and its files as path to text."""

    name: str
    version: str
    depends: str = ""
    files: dict[str, str] = field(default_factory=dict)
    control: dict[str, str] = field(default_factory=dict)
    scripts: dict[str, str] = field(default_factory=dict)

    def build(self, folder: Path) -> Path:
        """Make the .deb file."""
        tree = folder / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        for path, text in self.files.items():
            file = tree / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755 if text.startswith("#!") else 0o644)
        control = tree / "DEBIAN"
        control.mkdir(parents=True)
        fields = {
            "Package": self.name,
            "Version": self.version,
            "Architecture": "amd64",
            "Maintainer": "TrainBench's tests <tests@example.org>",
            "Description": f"stands in for {self.name}",
            **({"Depends": self.depends} if self.depends else {}),
            **self.control,
        }
        (control / "control").write_text("".join(f"{k}: {v}\n" for k, v in fields.items()))
        etc = [path for path in self.files if path.startswith("/etc/")]
        if etc:
            (control / "conffiles").write_text("".join(f"{path}\n" for path in etc))
        for name, text in self.scripts.items():
            (control / name).write_text(text)
            (control / name).chmod(0o755)
        deb = folder / f"{self.name}_{self.version.replace(':', '%3a')}_amd64.deb"
        argv = ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", str(tree), str(deb)]
        subprocess.run(argv, check=True, capture_output=True)
        shutil.rmtree(tree)
        return deb


def service(name: str) -> dict[str, Any]:
    """Files and scripts of a package with a daemon."""
    return {
        "files": {f"/etc/init.d/{name}": DAEMON.format(name=name)},
        "scripts": {
            "postinst": f"#!/bin/sh\nupdate-rc.d {name} defaults >/dev/null\n",
            "postrm": f'#!/bin/sh\n[ "$1" != purge ] || update-rc.d {name} remove >/dev/null\n',
        },
    }


def toolkit(release: str, full: str) -> list[Deb]:
    """A CUDA toolkit: its metapackage and the part that has nvcc."""
    dashed = release.replace(".", "-")
    nvcc = NVCC.format(release=release, full=full)
    common = "cuda-toolkit-config-common"
    return [
        Deb(
            f"cuda-toolkit-{dashed}", f"{release}.1-1", f"cuda-nvcc-{dashed} (>= {full}), {common}"
        ),
        Deb(f"cuda-nvcc-{dashed}", f"{full}-1", "", {f"/usr/local/cuda-{release}/bin/nvcc": nvcc}),
    ]


def driver(version: str) -> list[Deb]:
    """A driver: metapackages that take any newer part, as NVIDIA's do, and parts that do not."""
    branch = version.split(".")[0]
    full = f"{version}-1"
    fabric = service("nvidia-fabricmanager")
    return [
        Deb(f"cuda-drivers-{branch}", full, f"nvidia-driver-{branch} (>= {version})"),
        Deb(f"nvidia-driver-{branch}", full, f"libnvidia-compute-{branch} (= {full})"),
        Deb(
            f"libnvidia-compute-{branch}",
            full,
            files={"/usr/bin/nvidia-smi": NVIDIA_SMI.format(version=version)},
        ),
        Deb(f"nvidia-fabricmanager-{branch}", full, **fabric),
    ]


CUDA = [
    *driver("535.104.05"),
    *driver("535.183.01"),
    *toolkit("11.3", "11.3.109"),
    *toolkit("12.4", "12.4.131"),
    Deb(
        "cuda-toolkit-config-common",
        "12.4.127-1",
        files={"/etc/ld.so.conf.d/000_cuda.conf": "/usr/local/cuda/targets/x86_64-linux/lib\n"},
    ),
    *(
        Deb(name, version, depends)
        for version in ("8.2.1.32-1+cuda11.3", "8.9.7.29-1+cuda12.2")
        for name, depends in (("libcudnn8", ""), ("libcudnn8-dev", f"libcudnn8 (= {version})"))
    ),
    *(
        Deb(name, version, depends)
        for version in ("2.8.4-1+cuda11.2", "2.9.9-1+cuda11.3", "2.21.5-1+cuda12.4")
        for name, depends in (("libnccl2", ""), ("libnccl-dev", f"libnccl2 (= {version})"))
    ),
]
CONTAINERS = [
    *(
        Deb(name, f"{version}-1", depends)
        for version in ("1.16.2", "1.17.8")
        for name, depends in (
            ("nvidia-container-toolkit", f"nvidia-container-toolkit-base (= {version}-1)"),
            ("nvidia-container-toolkit-base", ""),
            ("libnvidia-container-tools", f"libnvidia-container1 (>= {version}-1)"),
            ("libnvidia-container1", ""),
        )
    ),
    # Debian's own is newer in name only: its daemon needs cgroups that a test node has not
    Deb("docker.io", "999:1-1", **service("docker")),
]


class Key:
    """A throw-away OpenPGP key. ``fingerprint`` names it; ``public`` is its armoured text."""

    def __init__(self, home: Path, who: str) -> None:
        home.mkdir(mode=0o700)
        self._home = home
        self._gpg(
            "--quick-generate-key", "--passphrase", "", f"{who} <{who}@example.org>", "rsa2048"
        )
        listed = self._gpg("--list-keys", "--with-colons").decode()
        self.fingerprint = next(
            line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:")
        )
        self.public = self._gpg("--armor", "--export").decode()

    def _gpg(self, *words: str, data: bytes = b"") -> bytes:
        argv = ["gpg", "--homedir", str(self._home), "--batch", "--quiet", *words]
        return subprocess.run(argv, input=data, capture_output=True, check=True).stdout

    def sign(self, text: str) -> bytes:
        """The text with its signature around it."""
        return self._gpg("--clearsign", "--digest-algo", "SHA512", data=text.encode())

    def close(self) -> None:
        """End the agent that gpg started."""
        subprocess.run(["gpgconf", "--homedir", str(self._home), "--kill", "all"], check=False)


def write_repository(folder: Path, debs: list[Deb], key: Key) -> None:
    """A flat repository, as NVIDIA's are."""
    folder.mkdir(parents=True)
    entries = []
    for deb in debs:
        file = deb.build(folder)
        control = subprocess.run(
            ["dpkg-deb", "--field", str(file)], capture_output=True, text=True, check=True
        ).stdout
        data = file.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        place = f"Filename: ./{file.name}\nSize: {len(data)}\nSHA256: {digest}\n"
        entries.append(control + place)
    packages = "\n".join(entries).encode()
    files = {"Packages": packages, "Packages.gz": gzip.compress(packages)}
    release = f"Origin: NVIDIA\nLabel: NVIDIA CUDA\nDate: {formatdate(usegmt=True)}\nSHA256:\n"
    for name, data in files.items():
        (folder / name).write_bytes(data)
        release += f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n"
    (folder / "Release").write_text(release)
    (folder / "InRelease").write_bytes(key.sign(release))


@dataclass
class Vendor:
    """NVIDIA's repositories below one folder."""

    folder: Path
    key: Key

    @property
    def cuda(self) -> Path:
        """The folder of drivers and toolkits."""
        return self.folder / "cuda" / "any" / "x86_64"

    def variables(self, address: str) -> dict[str, Any]:
        """What a site's inventory says of its mirror at this address (no slash at its end)."""
        return {
            "site_mirrors": {
                "apt": {
                    "https://developer.download.nvidia.com/compute/cuda/repos/": f"{address}/cuda/",
                    "https://nvidia.github.io/libnvidia-container/": f"{address}/containers/",
                },
            },
            "site_apt_fingerprints": {
                "nvidia_cuda": [self.key.fingerprint],
                "nvidia_containers": [self.key.fingerprint],
            },
        }

    @contextmanager
    def served(self, group: Group) -> Iterator[dict[str, Any]]:
        """Serve it on the cluster's bridge; gives the inventory's variables."""
        host = f"{group.nodes[0].address.rpartition('.')[0]}.1"
        handler = partial(_Quiet, directory=str(self.folder))
        with ThreadingHTTPServer((host, 0), handler) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield self.variables(f"http://{host}:{server.server_address[1]}")
            finally:
                server.shutdown()
                thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_words: Any) -> None:
        pass


@contextmanager
def repositories(folder: Path) -> Iterator[Vendor]:
    """The repositories, made in a new folder; their key is gone at the end."""
    key = Key(folder / "vendor", "vendor")
    made = Vendor(folder / "www", key)
    write_repository(made.cuda, CUDA, key)
    write_repository(made.folder / "containers/stable/deb/amd64", CONTAINERS, key)
    for name in ("3bf863cc.pub", "8793F200.pub"):
        (made.cuda / name).write_text(key.public)
    (made.folder / "containers/gpgkey").write_text(key.public)
    for system in SYSTEMS:
        (made.folder / "cuda" / system).symlink_to("any")
    try:
        yield made
    finally:
        key.close()


@pytest.fixture(scope="session")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vendor]:
    """NVIDIA's repositories, made once a session. What a test changes in them it puts back."""
    with repositories(tmp_path_factory.mktemp("vendor")) as made:
        yield made
