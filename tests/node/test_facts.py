"""node/facts: what a node is, from recorded files and programs' words.

`Recorded` stands in for the machine at its boundary: files, programs, the kernel's interfaces.
The H200's row was printed by nvidia-smi of driver 580.159.04. The V100's is written after its
documented CSV, with the words that driver 440 uses for what a device does not have.
"""

import fnmatch
import json
from pathlib import Path
from typing import Any

import pytest

from node.facts import devices, host, installed, libraries, network, record, survey
from node.facts.machine import Machine
from tests.node import run

ROOT = "/opt/tb"
V100 = (
    "{n}, Tesla V100-SXM2-32GB, 440.33.01, 32510, 1530, 877, 1290, 877, {watt}, Enabled, {ecc}, 0"
)
V100_FIELDS = [
    name for name in devices.GPU_FIELDS if name not in ("mig.mode.current", "vbios_version")
]
H200 = (
    "{n}, NVIDIA H200, 580.159.04, 143771, 1980, 3201, 1980, 3201, 700.00, Enabled, Enabled, 0,"
    " Disabled, Default, 5, 16, 16, 96.00.A5.00.1A"
)
CPUINFO = "".join(
    f"processor\t: {n}\nmodel name\t: Intel(R) Xeon(R) Gold 6132 CPU @ 2.60GHz\n"
    f"physical id\t: {n % 2}\ncore id\t\t: {n // 4}\n\n"
    for n in range(8)
)


class Recorded(Machine):
    """A machine of recorded answers: path to text, argv's beginning to (exit code, words)."""

    def __init__(
        self, files: dict[str, str] | None = None, ran: dict[str, tuple[int, str]] | None = None
    ) -> None:
        self.files, self.ran = files or {}, ran or {}
        self.asked: list[str] = []

    def text(self, path: str) -> str | None:
        return self.files.get(path)

    def glob(self, pattern: str) -> list[str]:
        depth = pattern.count("/")
        folders = {
            path.rsplit("/", cut)[0] for path in self.files for cut in range(path.count("/"))
        }
        return sorted(
            path
            for path in folders | set(self.files)
            if path.count("/") == depth and fnmatch.fnmatch(path, pattern)
        )

    def real(self, path: str) -> str:
        return f"{path}.18.5"

    def run(self, *argv: str) -> tuple[int, str] | None:
        line = " ".join(argv)
        self.asked.append(line)
        return next((said for start, said in self.ran.items() if line.startswith(start)), None)

    def addresses(self) -> dict[str, list[str]]:
        return {"lo": ["127.0.0.1"], "eth0": ["10.0.0.1"], "ib0": ["192.168.0.1"], "ib1": []}

    def mtu(self, interface: str) -> int | None:
        return {"eth0": 1500, "ib0": 2044}.get(interface)

    def resolve(self, name: str) -> list[str]:
        return {"node1": ["10.0.0.1"]}.get(name, [])

    def disk(self, path: str) -> tuple[int, int]:
        return 1000, 2000


# --- devices --------------------------------------------------------------------------------------


def test_gpus_by_the_csv_and_the_kernel_module() -> None:
    told = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build"
    rows = "\n".join(H200.format(n=n) for n in range(8)) + "\n"
    machine = Recorded({"/proc/driver/nvidia/version": told}, {"nvidia-smi": (0, rows)})
    found = devices.gpus(machine)
    assert (found["driver"], found["problem"], len(found["devices"])) == ("580.159.04", None, 8)
    device = found["devices"][7]
    assert (device["name"], device["index"], device["power.limit"]) == (
        "NVIDIA H200",
        "7",
        "700.00",
    )
    assert device["clocks.applications.graphics"] == "1980"


@pytest.mark.parametrize(
    "line",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  440.33.01  Wed Nov 13 00:00:22 UTC 2019",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  440.33.01  Release Build",
    ],
)
def test_version_of_the_kernel_module(line: str) -> None:
    machine = Recorded({"/proc/driver/nvidia/version": f"{line}\nGCC version: gcc 7.5.0"})
    assert devices.kernel_driver(machine) == "440.33.01"


def test_a_field_that_an_old_driver_does_not_know_is_left_out() -> None:
    class Old(Recorded):
        def run(self, *argv: str) -> tuple[int, str] | None:
            fields = argv[1].split("=", 1)[1].split(",") if argv[0] == "nvidia-smi" else []
            for name in ("mig.mode.current", "vbios_version"):
                if name in fields:
                    return 2, f'Field "{name}" is not a valid field to query.\n'
            row = V100.format(n=0, watt="300.00", ecc="Enabled") + ", Default, 3, 16, 16"
            return (0, row) if fields else None

    found = devices.gpus(Old())
    assert found["problem"] is None
    assert list(found["devices"][0]) == V100_FIELDS
    assert found["driver"] == "440.33.01"


@pytest.mark.parametrize(
    ("files", "ran", "problem"),
    [
        ({}, {}, None),
        (
            {"/proc/driver/nvidia/version": "NVIDIA UNIX x86_64 Kernel Module  1.2  Wed"},
            {},
            "the NVIDIA driver is loaded, but nvidia-smi is not installed",
        ),
        (
            {},
            {"nvidia-smi": (18, "Failed to initialize NVML: Driver/library version mismatch\n")},
            "nvidia-smi: Failed to initialize NVML: Driver/library version mismatch",
        ),
        (
            {"/proc/driver/nvidia/version": "NVIDIA UNIX x86_64 Kernel Module  580.1  Wed"},
            {"nvidia-smi": (0, H200.format(n=0))},
            "the loaded NVIDIA kernel module is 580.1, but nvidia-smi reports 580.159.04;"
            " restart the node",
        ),
        ({}, {"nvidia-smi": (124, "nvidia-smi gave no answer within 30 s")}, "within 30 s"),
    ],
)
def test_a_tool_that_fails_is_a_problem_in_its_own_words(
    files: dict[str, str], ran: dict[str, tuple[int, str]], problem: str | None
) -> None:
    found = devices.gpus(Recorded(files, ran))["problem"]
    assert found == problem if problem is None else problem in found


def test_npus_by_the_table() -> None:
    table = """\
| npu-smi 23.0.rc1                 Version: 23.0.rc1                                           |
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
| 0     910B1               | OK            | 97.5        47                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          4155 / 65536         |
| 1     910B1               | Warning       | 95.2        46                0    / 0             |
"""
    files = {"/usr/local/Ascend/driver/version.info": "Version=23.0.rc1\nascendhal=7"}
    found = devices.npus(Recorded(files, {"npu-smi": (0, table)}))
    assert found["driver"] == "23.0.rc1"
    assert [(one["name"], one["health"]) for one in found["devices"]] == [
        ("910B1", "OK"),
        ("910B1", "Warning"),
    ]


# --- libraries, systems ---------------------------------------------------------------------------


def test_cuda_toolkits_old_and_new() -> None:
    files = {
        "/usr/local/cuda-10.2/version.txt": "CUDA Version 10.2.89",
        "/usr/local/cuda-11.3/version.json": '{"cuda": {"version": "11.3.1"}}',
        "/usr/local/cuda-12.4/bin": "",
    }
    assert libraries.toolkits(Recorded(files)) == {
        "/usr/local/cuda-10.2": "10.2.89",
        "/usr/local/cuda-11.3": "11.3.1",
        "/usr/local/cuda-12.4": "12.4",
    }


def test_packages_that_are_installed_and_libraries_that_the_loader_finds() -> None:
    said = (
        "libnccl2\t2.7.3-1+cuda10.2\tinstalled\nlibcudnn8\t\tnot-installed\n"
        "dpkg-query: no packages found matching cudnn*\n"
    )
    ldconfig = (
        "\tlibnccl.so.2 (libc6,x86-64) => /usr/lib/libnccl.so.2\n\tlibm.so.6 => /lib/libm.so.6"
    )
    machine = Recorded({}, {"dpkg-query": (1, said), "/sbin/ldconfig": (0, ldconfig)})
    assert libraries.packages(machine) == {"libnccl2": "2.7.3-1+cuda10.2"}
    assert libraries.libraries(machine) == {"libnccl.so.2": "libnccl.so.2.18.5"}


def test_a_pin_set_its_lock_and_its_torch() -> None:
    home = f"{ROOT}/systems/torch_gpt/torch-2.13"
    lock = "torch==2.13.0+cpu\nnumpy==2.4.6 --hash=sha256:00\n# by setup\napex @ file:///w.whl\n"
    files = {
        f"{home}/installed.json": json.dumps({"identity": {"versions": {"torch": "2.13.0"}}}),
        f"{home}/lock.txt": lock,
        f"{home}/env/lib/python3.8/site-packages/torch/version.py": "__version__ = '2.13.0+cpu'",
        f"{ROOT}/systems/libai/1/installed.json": "{",
        f"{ROOT}/datasets/default/dataset.json": '{"sha256": {"a.bin": "12"}}',
    }
    found = installed.pins(Recorded(files), ROOT)
    assert found["libai/1"]["identity"] is None
    pin = found["torch_gpt/torch-2.13"]
    assert pin["lock"] == {"torch": "2.13.0+cpu", "numpy": "2.4.6", "apex": "file:///w.whl"}
    assert (pin["torch"], len(pin["lock_sha256"])) == ("2.13.0+cpu", 64)
    assert installed.datasets(Recorded(files), ROOT) == {"default": {"sha256": {"a.bin": "12"}}}


# --- the machine ----------------------------------------------------------------------------------


def test_cpu_memory_and_system() -> None:
    files = {
        "/proc/cpuinfo": CPUINFO,
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
        "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave",
        "/sys/devices/system/node/node0/cpulist": "0-3",
        "/sys/devices/system/node/node1/cpulist": "4-7",
        "/proc/meminfo": "MemTotal:  32768 kB\nSwapTotal: 0 kB\nHugePages_Total: 4\n",
        "/etc/os-release": 'PRETTY_NAME="Ubuntu 20.04.6 LTS"\nID=ubuntu',
        "/proc/sys/kernel/osrelease": "5.4.0-42-generic",
        "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        "/proc/sys/net/core/rmem_max": "212992",
    }
    machine = Recorded(files)
    cpu = host.cpu(machine)
    assert (cpu["sockets"], cpu["cores"], cpu["threads"], cpu["numa_nodes"]) == (2, 4, 8, 2)
    assert cpu["governor"] == "performance, powersave"
    memory = host.memory(machine)
    assert (memory["total_mib"], memory["swap_mib"], memory["hugepage_kib"]) == (32, 0, None)
    system = host.system(machine)
    assert (system["os"], system["kernel"]) == ("Ubuntu 20.04.6 LTS", "5.4.0-42-generic")
    assert system["transparent_hugepages"] == "madvise"
    assert system["settings"]["net.core.rmem_max"] == 212992


@pytest.mark.parametrize(
    ("spec", "interfaces"),
    [
        ({"addresses": ["10.0.0.1"]}, {"eth0": "cluster"}),
        ({"addresses": ["node1"]}, {"eth0": "cluster"}),
        ({"addresses": ["10.0.0.1"], "interfaces": ["ib"]}, {"eth0", "ib0", "ib1"}),
        ({"addresses": ["10.0.0.1"], "interfaces": ["=ib0,ib7"]}, {"eth0", "ib0"}),
        ({"addresses": ["10.0.0.1"], "interfaces": ["^lo,ib"]}, {"eth0"}),
    ],
)
def test_interfaces_of_the_cluster_and_of_training(spec: dict[str, Any], interfaces: Any) -> None:
    found = network.network(Recorded({"/sys/class/net/eth0/speed": "25000"}), spec)["interfaces"]
    assert set(found) == set(interfaces)
    assert (found["eth0"]["mtu"], found["eth0"]["speed_mbit_s"]) == (1500, 25000)


def test_infiniband_ports() -> None:
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    files = {
        f"{port}/state": "4: ACTIVE",
        f"{port}/rate": "100 Gb/sec (4X EDR)",
        f"{port}/link_layer": "InfiniBand",
        "/sys/class/infiniband/mlx5_0/fw_ver": "16.35.2000",
    }
    assert network.network(Recorded(files), {})["infiniband"] == {
        "mlx5_0/1": {
            "state": "ACTIVE",
            "rate": "100 Gb/sec (4X EDR)",
            "link_layer": "InfiniBand",
            "firmware": "16.35.2000",
        }
    }


CHRONY = "CB00710F,203.0.113.15,2,1600000000.1,0.000012,0.1,0.1,-9.4,0.0,0.1,0.02,0.003,64.4,"


@pytest.mark.parametrize(
    ("ran", "offset", "synchronised"),
    [
        ({"chronyc": (0, CHRONY + "Normal\n")}, 0.000012, True),
        ({"chronyc": (0, CHRONY + "Not synchronised\n")}, 0.000012, False),
        ({"chronyc": (1, "506 Cannot talk to daemon\n"), "timedatectl": (0, "no\n")}, None, False),
        ({}, None, None),
    ],
)
def test_what_the_time_service_says(
    ran: dict[str, tuple[int, str]], offset: float | None, synchronised: bool | None
) -> None:
    found = host.clock(Recorded({}, ran), {"offset_s": 1.0})
    assert (found["chrony_offset_s"], found["synchronised"]) == (offset, synchronised)
    assert found["offset_s"] == 1.0


def test_fabric_manager_matters_only_beside_nvswitch() -> None:
    runs = {"/proc/17/comm": "nv-fabricmanage"}
    switch = {"/dev/nvidia-nvswitch0": ""}
    assert libraries.fabric_manager(Recorded(runs)) is None
    assert libraries.fabric_manager(Recorded(switch)) is False
    assert libraries.fabric_manager(Recorded(runs | switch)) is True


# --- this machine ---------------------------------------------------------------------------------


def test_as_it_is_sent_it_reads_this_machine_and_leaves_env_json(tmp_path: Path) -> None:
    spec = {"root": str(tmp_path), "addresses": ["127.0.0.1"], "write": True, "time": {}}
    said = run("facts.record:read", spec).facts
    assert said == json.loads((tmp_path / "env.json").read_text())
    assert said["schema"] == 1
    assert said["cpu"]["usable"] >= 1
    assert said["network"]["interfaces"]["lo"]["mtu"] > 1000


def test_a_root_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    facts: dict[str, Any] = {"disk": {}}
    record.leave(facts, str(tmp_path / "none"), "env.json")
    assert not (tmp_path / "none").exists()
    assert facts == {"disk": {}}


# --- a task of srun -------------------------------------------------------------------------------


def test_a_node_leaves_what_it_is_under_slurms_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "n7")
    told: dict[str, Any] = {}
    monkeypatch.setattr(survey, "read", lambda spec: told.update(spec) or {"schema": 1})
    spec = {"folder": str(tmp_path), "read": {"root": ROOT}, "expected": {"devices": 8}}
    assert survey.leave(spec) == "n7"
    assert told == {"root": ROOT, "addresses": ["n7"]}
    assert json.loads((tmp_path / "n7.json").read_text()) == {
        "env": {"schema": 1},
        "expected": {"devices": 8},
    }


def test_a_node_that_cannot_say_what_it_is_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(spec: object) -> None:
        raise OSError("no /proc")

    monkeypatch.setenv("SLURMD_NODENAME", "n7")
    monkeypatch.setattr(survey, "read", broken)
    survey.leave({"folder": str(tmp_path), "read": {}, "expected": {}})
    assert json.loads((tmp_path / "n7.json").read_text()) == {"unreachable": "no /proc"}
