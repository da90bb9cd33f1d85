"""What a node is, as one JSON object: read here, compared on the control node. Writes no setting.

    python3 env.py '{"root": "/opt/trainbench"}'        print it
    python3 - SPEC < env.py                             the same, sent by roles/verify

SPEC is JSON: root (TrainBench's folder on the node), addresses (the node's in the cluster),
interfaces (the values of NCCL_SOCKET_IFNAME and the like in cluster_env), write (also leave it as
<root>/env.json), time (what the control node measured of this node's clock). Runs on the node by
its own Python (3.8 or newer), standard library only, as the user that trains; needs no root.

A value that cannot be had is null, and never 0. A tool that is there and fails says so in its own
words (`problem`). Keys carry their units. docs/doctor.md lists what is compared, and how.
"""

from __future__ import annotations

import array
import fcntl
import glob
import hashlib
import json
import os
import platform
import re
import resource
import socket
import struct
import subprocess
import sys
import time
from typing import Any

SCHEMA = 1
TOOL_S = 30.0  # nvidia-smi without persistence mode takes seconds a GPU
# Fields that a driver does not know are left out: its own words name them.
GPU_FIELDS = (
    "index",
    "name",
    "driver_version",
    "memory.total",
    "clocks.max.sm",
    "clocks.max.memory",
    "clocks.applications.graphics",
    "clocks.applications.memory",
    "power.limit",
    "persistence_mode",
    "ecc.mode.current",
    "ecc.errors.uncorrected.volatile.total",
    "mig.mode.current",
    "compute_mode",
    "pcie.link.gen.max",
    "pcie.link.width.max",
    "pcie.link.width.current",
    "vbios_version",
)
NOT_THERE = {"", "N/A", "[N/A]", "[Not Supported]", "Not Supported", "[Unknown Error]"}
PACKAGES = (
    *("libnccl*", "libcudnn*", "cudnn*", "cuda-toolkit-*"),
    *("nvidia-driver-*", "libnvidia-compute-*", "nvidia-fabricmanager*"),
    *("nvidia-container-toolkit", "rdma-core", "libibverbs1"),
)
LIBRARIES = ("libnccl.so", "libcudnn.so", "libcuda.so")
SIOCGIFCONF, SIOCGIFMTU = 0x8912, 0x8921


class Machine:
    """Where facts come from: files, programs, the kernel. Tests give one with recorded answers."""

    def text(self, path: str) -> str | None:
        """A file's text, stripped; None where it cannot be read."""
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                return stream.read().strip("\0\n ")
        except OSError:
            return None

    def glob(self, pattern: str) -> list[str]:
        """Paths that match, sorted."""
        return sorted(glob.glob(pattern))

    def real(self, path: str) -> str:
        """The path with its links resolved."""
        return os.path.realpath(path)

    def run(self, *argv: str) -> tuple[int, str] | None:
        """A program's exit code and words; None where there is no such program."""
        try:
            done = subprocess.run(
                argv,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "LC_ALL": "C"},
                timeout=TOOL_S,
                check=False,
            )
        except OSError:
            return None
        except subprocess.TimeoutExpired:
            return 124, f"{argv[0]} gave no answer within {TOOL_S:.0f} s"
        return done.returncode, done.stdout.decode("utf-8", "replace")

    def addresses(self) -> dict[str, list[str]]:
        """Interface name to its addresses, from the kernel."""
        found: dict[str, list[str]] = {}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            room = array.array("B", bytes(40 * 512))
            at, _ = room.buffer_info()
            said = fcntl.ioctl(asker, SIOCGIFCONF, struct.pack("iL", len(room), at))
            data = room.tobytes()[: struct.unpack("iL", said)[0]]
        for start in range(0, len(data), 40):  # struct ifreq: 16 bytes of name, then sockaddr_in
            name = data[start : start + 16].split(b"\0", 1)[0].decode()
            address = socket.inet_ntoa(data[start + 20 : start + 24])
            found.setdefault(name.split(":")[0], []).append(address)
        for line in (self.text("/proc/net/if_inet6") or "").splitlines():
            digits, *_, name = line.split()
            address = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
            found.setdefault(name, []).append(address)
        return found

    def mtu(self, interface: str) -> int | None:
        """From the kernel and not /sys, which may show another network namespace."""
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
                said = fcntl.ioctl(asker, SIOCGIFMTU, struct.pack("16si12x", interface.encode(), 0))
        except OSError:
            return None
        return int(struct.unpack("16si12x", said)[1])

    def resolve(self, name: str) -> list[str]:
        """A host name's addresses."""
        try:
            return sorted({str(entry[4][0]) for entry in socket.getaddrinfo(name, None)})
        except OSError:
            return []

    def disk(self, path: str) -> tuple[int, int]:
        """(free, total) MiB of the file system that holds the path, or will hold it."""
        while not os.path.isdir(path) and path != "/":
            path = os.path.dirname(path)
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize >> 20, found.f_blocks * found.f_frsize >> 20

    def processors(self) -> int:
        """CPUs that this process may use."""
        return len(os.sched_getaffinity(0))

    def limits(self) -> dict[str, int | None]:
        """What a process of this user may have; None is unlimited."""
        kinds = {
            "open_files": resource.RLIMIT_NOFILE,
            "locked_memory_bytes": resource.RLIMIT_MEMLOCK,
            "processes": resource.RLIMIT_NPROC,
            "stack_bytes": resource.RLIMIT_STACK,
        }
        values = {name: resource.getrlimit(kind)[0] for name, kind in kinds.items()}
        return {
            name: None if value == resource.RLIM_INFINITY else value
            for name, value in values.items()
        }


# --- helpers ----------------------------------------------------------------------------------


def number(text: str | None) -> int | None:
    """A whole number at the beginning of a text, or None."""
    found = re.match(r"\s*(-?\d+)", text or "")
    return int(found[1]) if found else None


def pairs(text: str | None, separator: str) -> dict[str, str]:
    """The first value of each key of `key<separator>value` lines."""
    found: dict[str, str] = {}
    for line in (text or "").splitlines():
        key, there, value = line.partition(separator)
        if there:
            found.setdefault(key.strip(), value.strip().strip('"'))
    return found


def shared(values: list[str | None]) -> str | None:
    """One value that all have, or all that there are, joined by commas; None without any."""
    there = sorted({value for value in values if value})
    return ", ".join(there) or None


def load(machine: Machine, path: str) -> dict[str, Any] | None:
    """A JSON file's object; None where there is no whole one."""
    try:
        content = json.loads(machine.text(path) or "")
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def last_line(text: str) -> str:
    """A failing tool's last words."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"


# --- the machine ------------------------------------------------------------------------------


def system(machine: Machine) -> dict[str, Any]:
    """Operating system, kernel, and settings of the kernel that training meets."""
    settings = {}
    for name in ("kernel/numa_balancing", "net/core/rmem_max", "net/core/wmem_max"):
        settings[name.replace("/", ".")] = number(machine.text("/proc/sys/" + name))
    pages = machine.text("/sys/kernel/mm/transparent_hugepage/enabled") or ""
    chosen = re.search(r"\[(\w+)\]", pages)
    return {
        "os": pairs(machine.text("/etc/os-release"), "=").get("PRETTY_NAME"),
        "kernel": machine.text("/proc/sys/kernel/osrelease"),
        "architecture": platform.machine(),
        "boot_id": machine.text("/proc/sys/kernel/random/boot_id"),
        "transparent_hugepages": chosen[1] if chosen else None,
        "settings": settings,
        "limits": machine.limits(),
    }


def cpu(machine: Machine) -> dict[str, Any]:
    """Model, counts, and how the kernel drives them."""
    told = machine.text("/proc/cpuinfo") or ""
    blocks = [pairs(block, ":") for block in told.split("\n\n")]
    blocks = [block for block in blocks if "processor" in block]
    cores = {(block.get("physical id"), block.get("core id")) for block in blocks}
    known = all(None not in core for core in cores)
    first = blocks[0] if blocks else {}
    governors = machine.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
    return {
        "model": first.get("model name") or first.get("CPU part"),
        "sockets": len({core[0] for core in cores}) if known and cores else None,
        "cores": len(cores) if known and cores else None,
        "threads": len(blocks) or None,
        "usable": machine.processors(),
        "numa_nodes": len(machine.glob("/sys/devices/system/node/node[0-9]*")) or None,
        "governor": shared([machine.text(path) for path in governors]),
    }


def memory(machine: Machine) -> dict[str, Any]:
    """Main memory, swap and huge pages."""
    told = pairs(machine.text("/proc/meminfo"), ":")

    def mib(key: str) -> int | None:
        found = number(told.get(key))
        return None if found is None else found // 1024

    return {
        "total_mib": mib("MemTotal"),
        "swap_mib": mib("SwapTotal"),
        "hugepages": number(told.get("HugePages_Total")),
        "hugepage_kib": number(told.get("Hugepagesize")),
    }


# --- devices ----------------------------------------------------------------------------------


def kernel_driver(machine: Machine) -> str | None:
    """The version of NVIDIA's kernel module that is loaded."""
    told = machine.text("/proc/driver/nvidia/version") or ""
    found = re.search(r"Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)", told)
    return found[1] if found else None


def gpus(machine: Machine) -> dict[str, Any]:
    """NVIDIA's driver and devices, by nvidia-smi's CSV."""
    fields = list(GPU_FIELDS)
    facts: dict[str, Any] = {"driver": kernel_driver(machine), "problem": None, "devices": []}
    while fields:
        query = "--query-gpu=" + ",".join(fields)
        said = machine.run("nvidia-smi", query, "--format=csv,noheader,nounits")
        if said is None:
            if facts["driver"]:
                facts["problem"] = "the driver is loaded, and there is no nvidia-smi"
            return facts
        rc, text = said
        unknown = re.search(r'Field "([^"]+)" is not a valid field', text)
        if rc == 0:
            facts["devices"] = rows(fields, text)
            break
        if not unknown or unknown[1] not in fields:
            facts["problem"] = f"nvidia-smi: {last_line(text)}"
            break
        fields.remove(unknown[1])
    versions = shared([device.get("driver_version") for device in facts["devices"]])
    if versions and facts["driver"] and versions != facts["driver"]:
        facts["problem"] = f"kernel module {facts['driver']}, and nvidia-smi says {versions}"
    facts["driver"] = facts["driver"] or versions
    return facts


def rows(fields: list[str], text: str) -> list[dict[str, str | None]]:
    """The rows of nvidia-smi's CSV; what a device does not have is None."""
    found = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split(", ")]
        if len(values) == len(fields):
            row = zip(fields, values)  # noqa: B905  # Python 3.8 has no strict
            found.append({key: None if value in NOT_THERE else value for key, value in row})
    return found


def npus(machine: Machine) -> dict[str, Any]:
    """Ascend's driver, firmware, toolkit and devices."""
    ascend = "/usr/local/Ascend"
    facts: dict[str, Any] = {"problem": None, "devices": []}
    for name, path in (
        ("driver", f"{ascend}/driver/version.info"),
        ("firmware", f"{ascend}/firmware/version.info"),
    ):
        facts[name] = pairs(machine.text(path), "=").get("Version")
    toolkit = machine.text(f"{ascend}/ascend-toolkit/latest/version.cfg") or ""
    version = re.search(r"\[([\d.A-Za-z]+):", toolkit)
    facts["toolkit"] = version[1] if version else None
    said = machine.run("npu-smi", "info")
    if said is None:
        return facts
    if said[0] != 0:
        facts["problem"] = f"npu-smi: {last_line(said[1])}"
        return facts
    version = re.search(r"Version:\s*(\S+)", said[1])
    facts["driver"] = facts["driver"] or (version[1] if version else None)
    # | 0     910B1       | OK        | 97.5   ... one such row a device, its second row has the bus
    for line in said[1].splitlines():
        if row := re.match(r"\|\s*(\d+)\s+(\w*\d+\w*)\s*\|\s*([A-Za-z]+)\s*\|", line):
            facts["devices"].append({"index": row[1], "name": row[2], "health": row[3]})
    return facts


# --- libraries --------------------------------------------------------------------------------


def toolkits(machine: Machine) -> dict[str, str]:
    """CUDA toolkits: folder to version."""
    found = {}
    for folder in machine.glob("/usr/local/cuda-[0-9]*"):
        content = load(machine, f"{folder}/version.json") or {}
        version = (content.get("cuda") or {}).get("version")
        old = re.search(r"CUDA Version ([\d.]+)", machine.text(f"{folder}/version.txt") or "")
        found[folder] = version or (old[1] if old else folder.rsplit("-", 1)[1])
    return found


def packages(machine: Machine) -> dict[str, str]:
    """Debian packages that training depends on: name to version."""
    form = "${Package}\t${Version}\t${db:Status-Status}\n"
    said = machine.run("dpkg-query", "-W", "-f", form, *PACKAGES)
    found = {}
    for line in (said[1] if said else "").splitlines():
        if line.count("\t") == 2:
            name, version, state = line.split("\t")
            if state == "installed":
                found[name] = version
    return found


def libraries(machine: Machine) -> dict[str, str]:
    """Libraries that the loader finds: name to the file behind its links."""
    said = machine.run("/sbin/ldconfig", "-p") or machine.run("ldconfig", "-p")
    found: dict[str, str] = {}
    for line in (said[1] if said and said[0] == 0 else "").splitlines():
        name, arrow, path = line.strip().partition(" => ")
        name = name.split(" ")[0]
        if arrow and name.startswith(LIBRARIES):
            found.setdefault(name, os.path.basename(machine.real(path)))
    return found


def fabric_manager(machine: Machine) -> bool | None:
    """Whether it runs; None where no device needs it."""
    if not machine.glob("/dev/nvidia-nvswitch[0-9]*"):
        return None
    names = (machine.text(path) for path in machine.glob("/proc/[0-9]*/comm"))
    return any(name == "nv-fabricmanage" for name in names)  # the kernel keeps 15 letters


# --- what setup put there ---------------------------------------------------------------------


def pins(machine: Machine, root: str) -> dict[str, Any]:
    """Each system and pin set that is installed, what it is made of, and its lock."""
    found = {}
    for path in machine.glob(f"{root}/systems/*/*/installed.json"):
        home = path.rsplit("/", 1)[0]
        content = load(machine, path)
        lock = machine.text(f"{home}/lock.txt")
        found["/".join(home.rsplit("/", 2)[1:])] = {
            "home": home,
            "identity": None if content is None else content.get("identity"),
            "lock_sha256": None if lock is None else hashlib.sha256(lock.encode()).hexdigest(),
            "lock": locked(lock or ""),
            "torch": torch_version(machine, home),
        }
    return found


def locked(text: str) -> dict[str, str]:
    """A lock's packages: name to version (or address)."""
    found = {}
    for line in text.splitlines():
        line = line.split(" --hash", 1)[0].split("#", 1)[0].strip().rstrip("\\").strip()
        if part := re.match(r"([A-Za-z0-9._-]+)\s*(?:==|@|=)\s*(\S.*)", line):
            found[part[1].lower()] = part[2]
    return found


def torch_version(machine: Machine, home: str) -> str | None:
    """The torch of an environment, from its own file and without importing it."""
    for library in ("lib/python3*/site-packages", "lib/python3*/dist-packages"):
        for path in machine.glob(f"{home}/env/{library}/torch/version.py"):
            told = re.search(r"__version__ = '([^']+)'", machine.text(path) or "")
            return told[1] if told else "unknown"
    return None


def datasets(machine: Machine, root: str) -> dict[str, Any]:
    """Each dataset's checksums, as its manifest has them (the role's verify reads the files)."""
    found = {}
    for path in machine.glob(f"{root}/datasets/*/dataset.json"):
        content = load(machine, path) or {}
        found[path.rsplit("/", 2)[1]] = {"sha256": content.get("sha256")}
    return found


# --- network, disk, time ----------------------------------------------------------------------


def network(machine: Machine, spec: dict[str, Any]) -> dict[str, Any]:
    """The interfaces that carry the cluster's addresses or are named for training."""
    there = machine.addresses()
    wanted: set[str] = set()
    for address in spec.get("addresses", []):
        wanted |= {address, *machine.resolve(address)}
    carriers = [name for name, owned in there.items() if wanted & set(owned)]
    interfaces = {}
    for name in sorted(there):
        chosen = any(named(name, value) for value in spec.get("interfaces", []))
        if name in carriers or chosen:
            speed = number(machine.text(f"/sys/class/net/{name}/speed"))
            interfaces[name] = {
                "mtu": machine.mtu(name),
                "speed_mbit_s": speed if speed and speed > 0 else None,
                "carries": "cluster" if name in carriers else "training",
                "addresses": there[name],
            }
    ports = {}
    for path in machine.glob("/sys/class/infiniband/*/ports/*"):
        parts = path.split("/")
        ports[f"{parts[-3]}/{parts[-1]}"] = {
            "state": (machine.text(f"{path}/state") or "").partition(": ")[2] or None,
            "rate": machine.text(f"{path}/rate"),
            "link_layer": machine.text(f"{path}/link_layer"),
            "firmware": machine.text(f"{'/'.join(parts[:-2])}/fw_ver"),
        }
    return {"interfaces": interfaces, "infiniband": ports}


def named(name: str, value: str) -> bool:
    """Whether NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME, as it stands, chooses an interface.

    NCCL's documentation: words are prefixes, `=` before them makes them exact, and `^` lists what
    is left out, which chooses none.
    """
    if value.startswith("^"):
        return False
    words = [word.partition(":")[0] for word in value.lstrip("=").split(",") if word]
    return name in words if value.startswith("=") else any(map(name.startswith, words))


def clock(machine: Machine, measured: dict[str, Any]) -> dict[str, Any]:
    """The control node's measurement, and what chrony or systemd says of the clock."""
    chrony = None
    said = machine.run("chronyc", "-n", "-c", "tracking")
    words = (said[1] if said and said[0] == 0 else "").strip().split(",")
    if len(words) > 12:
        try:
            chrony = float(words[4])
        except ValueError:
            chrony = None
    synchronised = None
    if chrony is not None:
        synchronised = words[-1].strip() == "Normal"
    else:
        said = machine.run("timedatectl", "show", "-p", "NTPSynchronized", "--value")
        word = said[1].strip() if said and said[0] == 0 else ""
        synchronised = {"yes": True, "no": False}.get(word)
    return {**measured, "chrony_offset_s": chrony, "synchronised": synchronised}


# --- all of it --------------------------------------------------------------------------------


def read(machine: Machine, spec: dict[str, Any]) -> dict[str, Any]:
    """Everything, as env.json holds it."""
    root = spec["root"]
    free, total = machine.disk(root)
    return {
        "schema": SCHEMA,
        "read_at": time.time(),
        "hostname": socket.gethostname(),
        "system": system(machine),
        "cpu": cpu(machine),
        "memory": memory(machine),
        "gpu": gpus(machine),
        "npu": npus(machine),
        "cuda_toolkits": toolkits(machine),
        "packages": packages(machine),
        "libraries": libraries(machine),
        "fabric_manager": fabric_manager(machine),
        "conda": bool(machine.glob(f"{root}/conda/bin/conda")),
        "systems": pins(machine, root),
        "datasets": datasets(machine, root),
        "network": network(machine, spec),
        "disk": {"path": root, "free_mib": free, "total_mib": total},
        "time": clock(machine, spec.get("time", {})),
    }


def leave(facts: dict[str, Any], root: str) -> None:
    """Write <root>/env.json, whole or not at all; a root that is not there yet is not made."""
    if not os.path.isdir(root):
        return
    fresh = os.path.join(root, ".env.json.tmp")
    try:
        with open(fresh, "w", encoding="utf-8") as stream:
            json.dump(facts, stream, indent=1)
            stream.write("\n")
        os.replace(fresh, os.path.join(root, "env.json"))
    except OSError as error:
        facts["disk"]["problem"] = f"{root}/env.json cannot be written: {error.strerror}"


def main() -> int:
    """Read and print; the exit code."""
    spec = json.loads(sys.argv[1])
    facts = read(Machine(), spec)
    if spec.get("write"):
        leave(facts, spec["root"])
    print("TRAINBENCH " + json.dumps(facts, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
