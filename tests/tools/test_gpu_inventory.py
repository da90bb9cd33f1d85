"""What `make gpu-smoke` looks at first: a sentence for each thing that lacks, or an inventory.

The GPU, nvidia-smi and torch are stand-ins: no GPU is on a machine that runs the tests.
"""

import importlib.machinery
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.inventory.inventory import parse_inventory
from tests.conftest import ROOT

TOOL = ROOT / "tools" / "gpu-inventory"
A10 = ["NVIDIA A10", 8, 6]
GOOD: dict[str, Any] = {
    **{"torch": "2.11.0+cu130", "cuda": "13.0"},
    **{"gpus": [A10], "has": ["numpy", "tokenizers"]},
}
TORCH = """
__version__ = "2.11.0+cu130"
class version:
    cuda = "13.0"
class cuda:
    device_count = staticmethod(lambda: 3)
    get_device_name = staticmethod(lambda i: "Tesla T4")
    get_device_capability = staticmethod(lambda i: (7, 5))
"""


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program as a module; tools/ gets no __pycache__."""
    loader = importlib.machinery.SourceFileLoader("gpu_inventory", str(TOOL))
    spec = importlib.util.spec_from_loader("gpu_inventory", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader.exec_module(module)
    return module


def program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("step", "arguments", "sentence"),
    [
        ("check", ("/p", {"why": "ModuleNotFoundError: No module"}), "/p has no torch that can"),
        ("check", ("/p", {**GOOD, "torch": "2.9.1"}), "torch 2.9.1 of /p is older than 2.11, the"),
        ("check", ("/p", {**GOOD, "cuda": None}), "is a build without CUDA; install one that has"),
        (
            "check",
            ("/p", {**GOOD, "gpus": []}),
            "sees none of the GPUs that nvidia-smi lists; look",
        ),
        (
            "check",
            ("/p", {**GOOD, "has": []}),
            "/p has no numpy, which the trainer needs, too; ins",
        ),
        (
            "ask",
            ("/bin/false",),
            "/bin/false does not run (it said nothing); or name another Python",
        ),
        ("write", (Path("x"), "/p", GOOD, 2), "2 nodes want a GPU each, and torch sees 1 here"),
        ("python_with_torch", (), "python3 is no program; name a Python that has torch"),
        (
            "check_machine",
            (),
            "nvidia-smi is not on PATH, so no NVIDIA GPU is ready here; `make de",
        ),
        ("check_machine", ("echo No devices",), "no GPU here (No devices); `make demo` needs none"),
        (
            "check_machine",
            ("echo No driver; exit 9",),
            "no GPU here (No driver); `make demo` needs",
        ),
    ],
)
def test_what_lacks_is_one_sentence(
    tool: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    step: str,
    arguments: tuple[Any, ...],
    sentence: str,
) -> None:
    if step == "check_machine" and arguments:  # what nvidia-smi does
        program(tmp_path / "nvidia-smi", *arguments)
        arguments = ()
    # The .venv of this checkout has a python3, and is not meant.
    monkeypatch.setenv("PATH", f"{ROOT}/.venv/bin:{tmp_path}")
    monkeypatch.delenv("TORCH", raising=False)
    monkeypatch.chdir(tmp_path)  # where `write` leaves what it began
    with pytest.raises(SystemExit, match="2"):
        getattr(tool, step)(*arguments)
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("error: ")
    assert sentence in err


@pytest.mark.parametrize(("gpus", "used"), [(1, 1), (3, 2), (8, 8), (16, 8)])
def test_the_inventory_is_one_of_ours(tool: Any, tmp_path: Path, gpus: int, used: int) -> None:
    tool.write(tmp_path / "gpu", "/p", {**GOOD, "gpus": [A10] * gpus})
    variables = {
        key: value
        for file in (tmp_path / "gpu/group_vars/all").iterdir()
        for key, value in yaml.safe_load(file.read_text()).items()
    }
    hosts = yaml.safe_load((tmp_path / "gpu/hosts.yml").read_text())["nodes"]["hosts"]
    listed = {
        "_meta": {"hostvars": {name: {**variables, **own} for name, own in hosts.items()}},
        "nodes": {"hosts": list(hosts)},
    }
    cluster = parse_inventory(listed, Path("gpu"))
    assert (cluster.device, [node.devices for node in cluster.nodes]) == ("cuda", [used])
    assert variables["torch_gpt_existing_python"] == variables["dataset_existing_python"] == "/p"
    assert variables["setup_privileged"] is False


@pytest.mark.parametrize(("gpus", "used"), [(2, 1), (4, 2), (7, 2)])
def test_test_nodes_have_their_part_each(tool: Any, tmp_path: Path, gpus: int, used: int) -> None:
    tool.write(tmp_path, "/p", {**GOOD, "gpus": [A10] * gpus}, 2)
    own = yaml.safe_load((tmp_path / "group_vars/all/cluster.yml").read_text())
    assert own["cluster_devices_per_node"] == used
    assert Path(own["cluster_root"]).is_absolute()  # the nodes are reached over ssh


def test_the_whole_of_it(tmp_path: Path) -> None:
    """Its python3 is the user's, beside the .venv that stands before it on PATH."""
    (tmp_path / "torch.py").write_text(TORCH)
    (tmp_path / "numpy.py").touch()
    own = f'PYTHONPATH={tmp_path} exec {sys.executable} -S "$@"'
    for name, text in (("nvidia-smi", "echo GPU 0: T4"), ("python3", own)):
        program(tmp_path / "bin" / name, text)
    ran = subprocess.run(
        [sys.executable, TOOL, tmp_path / "gpu"],
        env={"PATH": f"{ROOT}/.venv/bin:{tmp_path}/bin", "NCCL_NVLS_ENABLE": "0"},
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stdout) == (0, "fp16\n"), ran.stderr
    python = f"{tmp_path}/bin/python3"
    assert ran.stderr == f"3 x Tesla T4; torch 2.11.0+cu130 of {python}\n"
    written = yaml.safe_load((tmp_path / "gpu/group_vars/all/cluster.yml").read_text())
    assert written["torch_gpt_existing_python"] == python
    assert written["dataset_existing_python"] == ""
    assert written["cluster_env"] == {"NCCL_NVLS_ENABLE": "0"}
