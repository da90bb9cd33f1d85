"""Every fault that is planted: how it is made, how bad it is, and what accept must say of it.

`way` is `kernel` where the fault is a real one, and `shim` where a program at the edge behaves like
it. All are planted on node3; nodes are brought up for each acceptance, so nothing is undone.
"""

import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.bed import RUNTIME, SHARE, Accepting, Bed
from tests.cluster import network
from tests.cluster.processes import table
from tests.conftest import TORCH_ENV

ODD = 3
ALIKE, DEVICES, LINKS = ("alike",), ("devices",), ("links",)
STORAGE, TRAINING = ("storage",), ("training",)
# Tests that no planted fault needs, and that noise has measured again; clean nodes have them all.
UNNEEDED: Mapping[tuple[str, ...], tuple[str, ...]] = {
    DEVICES: ("matmul_bf16", "memory"),
    LINKS: ("all_gather", "all_to_all", "send_receive"),
    TRAINING: ("train_groups",),
}
# The other tests of a stage: faults that are no slowness need none of them.
FIGURES: Mapping[tuple[str, ...], tuple[str, ...]] = {
    DEVICES: ("matmul_fp32", "sustained"),
    LINKS: ("all", "pair", "pair_small", "pair_delivered"),
}


def nothing(_: Bed) -> None:
    """Plant nothing before accept begins."""


def idle(_: Accepting) -> None:
    """Plant nothing while accept goes on."""


@dataclass(frozen=True)
class Plant:
    """A kind of fault. A fault of one of `tests` must name `nodes`, and no other node may fail.

    `measured`: nodes have a share of the processors, so that a figure is one.
    """

    name: str
    severity: str
    way: str
    made_by: str
    stages: tuple[str, ...]
    tests: tuple[str, ...]
    before: Callable[[Bed], None] = nothing
    during: Callable[[Accepting], None] = idle
    nodes: tuple[str, ...] = (f"node{ODD}",)
    measured: bool = False
    disk_mib: int | None = None

    @property
    def options(self) -> list[str]:
        """Of `accept`: what shortens the stages."""
        figures = () if self.measured else FIGURES.get(self.stages, ())
        return [f"--leave-out={test}" for test in (*UNNEEDED.get(self.stages, ()), *figures)]


def slow_device(bed: Bed) -> None:
    bed.share(ODD, 0.7 * SHARE)


def slows_down(accepting: Accepting) -> None:
    accepting.until_step("correctness of products, part 4 of")
    accepting.bed.share(ODD, 0.4 * SHARE)


def starved(bed: Bed) -> None:
    """Bind the node's sshd to one processor; what it starts has no other."""
    for process in table(bed.node(ODD).pid):
        run("taskset", "--all-tasks", "--cpu-list", "--pid", "0", f"{process.host_pid}")


def loses_packets(bed: Bed) -> None:
    rules = """table inet planted {
    chain input {
        type filter hook input priority 0;
        iifname "eth0" numgen random mod 100 < 5 drop
    }
}
"""
    bed.node(ODD).exec(["nft", "-f", "-"], input=rules, check=True)


def far_away(bed: Bed) -> None:
    name = bed.cluster.name
    port = network.link(name, ODD)
    program = str(Path(__file__).with_name("latency.py"))
    argv = [sys.executable, program, port, network.bridge(name), f"{port}d", "5"]
    carrier = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    bed.undo.callback(carrier.wait)
    bed.undo.callback(carrier.kill)
    assert carrier.stdout is not None
    assert carrier.stdout.readline() == "carrying\n"


def limited_rate(bed: Bed) -> None:
    shape = ["rate", "50mbit", "burst", "64kb", "latency", "50ms"]
    bed.node(ODD).exec(["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *shape], check=True)


def small_mtu(bed: Bed) -> None:
    bed.node(ODD).exec(["ip", "link", "set", "eth0", "mtu", "1300"], check=True)


def late_clock(bed: Bed) -> None:
    """Have Ansible's Python on the node see another time: nodes share one kernel's clock."""
    python = "/usr/local/bin/late-python3"
    text = '#!/bin/sh\nexec faketime -f +3s /usr/bin/python3 "$@"\n'
    bed.node(ODD).exec(["tee", python], input=text, check=True)
    bed.node(ODD).exec(["chmod", "755", python], check=True)
    bed.host_variable(ODD, "ansible_python_interpreter", python)


def full_disk(bed: Bed) -> None:
    bed.node(ODD).fill_disk(leave_mib=300)


def slow_disk(bed: Bed) -> None:
    """Lay the folder of runs over itself, read and written at 16 MB/s."""
    node, runs = bed.node(ODD), str(RUNTIME / "runs")
    node.exec(["mkdir", "-p", runs], check=True)
    node.exec(["mknod", "-m", "666", "/dev/fuse", "c", "10", "229"], check=True)
    rates = ["--read-rate=16M", "--write-rate=16M", "-o", "nonempty,allow_other"]
    node.exec(["bindfs", *rates, runs, runs], check=True)


def swapped_names(bed: Bed) -> None:
    bed.node(2).exec(["hostname", "node3"], check=True)
    bed.node(3).exec(["hostname", "node2"], check=True)


def other_version(bed: Bed) -> None:
    """Install another version of a package into the trainer's environment, by its own pip."""
    wheel = bed.folder / "mpmath-1.2.9-py3-none-any.whl"
    about = {
        "mpmath/__init__.py": "__version__ = '1.2.9'\n",
        "mpmath-1.2.9.dist-info/METADATA": "Metadata-Version: 2.1\nName: mpmath\nVersion: 1.2.9\n",
        "mpmath-1.2.9.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
        "mpmath-1.2.9.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in about.items():
            archive.writestr(name, text)
    node = bed.node(ODD)
    there = f"/var/tmp/{wheel.name}"
    node.exec(["tee", there], input=wheel.read_bytes(), text=False, check=True)
    pip = [str(TORCH_ENV / "bin/python3"), "-m", "pip", "install", "--no-index", "--no-deps"]
    node.exec([*pip, there], check=True)


def wrong_product(bed: Bed) -> None:
    """Have torch.mm give one wrong element in the hundredth fp32 product of 512 of a process."""
    patch_torch(
        bed,
        """
_mm, _calls = mm, [0]


def mm(left, right, **options):
    result = _mm(left, right, **options)
    _calls[0] += left.shape == (512, 512) and left.dtype == float32
    if _calls[0] == 100:
        _calls[0] += 1
        result[0, 0] += 1
    return result
""",
    )


def wrong_training(bed: Bed) -> None:
    """Have layer_norm give values that are a tenth too large."""
    patch_torch(
        bed,
        """
_norm = nn.functional.layer_norm
nn.functional.layer_norm = lambda *given, **named: 1.1 * _norm(*given, **named)
""",
    )


def hangs(accepting: Accepting) -> None:
    """Stop the process of one rank for good, in the middle of a collective."""
    accepting.until_step("all-reduce of pairs, round 1")
    for pid in accepting.bed.probing(ODD):
        accepting.bed.node(ODD).signal(pid, signal.SIGSTOP)


def reboots(accepting: Accepting) -> None:
    accepting.until_step("correctness of products, part 2 of")
    accepting.bed.node(ODD).reboot(down_s=1.0)


def unplugged(accepting: Accepting) -> None:
    accepting.until_step("all-reduce of pairs, round 1")
    accepting.bed.node(ODD).link(False)


def no_ssh(bed: Bed) -> None:
    bed.node(ODD).kill_sshd()


def patch_torch(bed: Bed, text: str) -> None:
    """Add lines to torch's __init__ on the node; the other nodes keep theirs."""
    (path,) = TORCH_ENV.glob("lib/python3*/site-packages/torch/__init__.py")
    append = "import sys; open(sys.argv[1], 'a').write(sys.argv[2])"
    bed.node(ODD).exec([sys.executable, "-c", append, str(path), text], check=True)


def run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)


MATMUL = ("matmul", "sustained", "train_alone")
PAIR = ("pair", "pair_small")
PLANTS = (
    Plant("slow device", "30 % less of its processor", "kernel", "cgroup CPU quota", DEVICES,
          MATMUL, slow_device, measured=True),
    Plant("device slows down", "60 % less after half of the time", "kernel", "cgroup CPU quota",
          DEVICES, MATMUL, during=slows_down, measured=True),
    Plant("starved CPU", "1 of 2 processors", "kernel", "taskset of sshd", ALIKE,
          ("usable CPUs",), starved),
    Plant("one wrong product", "1 element of 1 product", "shim", "torch.mm of the node", DEVICES,
          ("correct",), wrong_product),
    Plant("packet loss", "5 % of what it receives", "kernel", "nft numgen", LINKS, PAIR,
          loses_packets, measured=True),
    Plant("latency", "5 ms each way", "kernel", "TAP with a queue", LINKS, PAIR, far_away,
          measured=True),
    Plant("limited rate", "50 Mbit/s of what it sends", "kernel", "tc tbf", LINKS, PAIR,
          limited_rate, measured=True),
    Plant("wrong MTU", "1300", "kernel", "ip link", ALIKE, ("MTU",), small_mtu),
    Plant("cable pulled", "in the middle of links", "kernel", "ip link", LINKS,
          ("lost", "unreachable"), during=unplugged),
    Plant("hangs in a collective", "for good", "kernel", "SIGSTOP", LINKS, ("lost",),
          during=hangs),
    Plant("reboots", "in the middle of devices", "kernel", "the node's init killed, booted",
          DEVICES, ("lost",), during=reboots),
    Plant("does not answer", "no sshd", "kernel", "SIGKILL", ALIKE, ("unreachable",), no_ssh),
    Plant("skewed clock", "3 s", "shim", "libfaketime under Ansible's Python", ALIKE,
          ("time offset",), late_clock),
    Plant("full disk", "300 MiB free", "kernel", "capped tmpfs, filled", ALIKE, ("free disk",),
          full_disk, disk_mib=4096),
    Plant("slow disk", "16 MB/s", "kernel", "FUSE (bindfs)", STORAGE,
          ("storage_write", "storage_read"), slow_disk),
    Plant("swapped names", "node2 and node3", "kernel", "hostname", ALIKE, ("host name",),
          swapped_names, nodes=("node2", "node3")),
    Plant("another library version", "mpmath 1.2.9", "kernel", "pip", ALIKE, ("system",),
          other_version),
    Plant("another loss", "layer norms 10 % too large", "shim", "torch of the node", TRAINING,
          ("loss",), wrong_training),
)  # fmt: skip
