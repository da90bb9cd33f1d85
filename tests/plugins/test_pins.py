"""plugins/filter/pins.py: a pin set's literals become steps, trees and checks."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from plugins.filter.pins import PinError, pin_plans
from runner.base.paths import PROJECT

SUM = "ab" * 32
COMMIT = "e52bdabbde3c6895aceb76c1bced295c2646121f"
# In the shape of document 001's, roles/megatron_deepspeed/vars/pins.yml.
PINS: dict[str, dict[str, Any]] = {
    "e52bdabb": {
        "document": "001",
        "python": "3.8",
        "cuda": "11.3",
        "source": {
            "repository": "https://github.com/bigscience-workshop/Megatron-DeepSpeed",
            "commit": COMMIT,
            "patches": ["requirements.patch"],
            "untracked": ["*.so"],
        },
        "build": ["setuptools==59.5.0"],
        "torch": {
            "version": "1.10.1+cu113",
            "torchvision": "0.11.2",
            "index": "https://download.pytorch.org/whl/cu113",
        },
        "requirements": [
            "numpy==1.22.0",
            "transformers==4.30.2",
            {"requirements": ["flash-attn==1.0.0"], "no_build_isolation": True},
            "six==1.16.0",
        ],
        "deepspeed": {"version": "0.8.0", "ops": ["fused_adam"]},
        "apex": {
            "version": "22.03",
            "repository": "https://github.com/NVIDIA/apex",
            "commit": "5" * 40,
            "patches": ["fix.patch"],
            "extensions": ["cpp_ext", "cuda_ext"],
        },
        "environment": {"TORCH_CUDA_ARCH_LIST": "8.0"},
        "imports": ["megatron"],
    },
    "plain": {"requirements": ["torch==2.13.0", "numpy==2.4.6"]},
}
HOME = "/opt/tb/systems/mds/e52bdabb"
SOURCE = {"repository": "r", "commit": COMMIT}


def read(path: Path) -> str:
    """The patches of the system's role and of apex's, and no other file."""
    texts = {
        "/roles/mds/files/patches/requirements.patch": "a patch\n",
        "/roles/apex/files/patches/fix.patch": "another\n",
        "/roles/mds/files/constraints/locked.txt": "# seen\npydantic==1.10.13\n\n",
    }
    if str(path) not in texts:
        raise FileNotFoundError(path)
    return texts[str(path)]


def plan(name: str = "e52bdabb", device: str = "cuda", **more: Any) -> dict[str, Any]:
    pins = {name: {**PINS.get(name, {}), **more}}
    site = {"system": "mds", "root": "/opt/tb/systems", "roles": "/roles", "gcc": "10"}
    site["device"] = device
    return pin_plans(pins, [name], site, read)[0]


def test_steps_stand_in_the_order_in_which_one_needs_the_other() -> None:
    steps = plan(sources={"x": {"repository": "r", "commit": COMMIT, "install": "editable"}})[
        "steps"
    ]
    names = ["build", "torch", "requirements", "requirements-2", "requirements-3"]
    assert [step["name"] for step in steps] == [*names, "deepspeed", "x", "apex"]
    assert steps[1] == {
        "name": "torch",
        "requirements": ["torch==1.10.1+cu113", "torchvision==0.11.2"],
        "index": "https://download.pytorch.org/whl/cu113",
    }
    assert steps[2]["requirements"] == ["numpy==1.22.0", "transformers==4.30.2"]
    assert steps[3]["no_build_isolation"] is True
    assert steps[5]["environment"] == {"DS_BUILD_FUSED_ADAM": "1"}
    assert steps[6]["tree"]["editable"] is True
    assert steps[7]["built"]["folder"] == f"{HOME}/wheels/apex"


def test_compiler_and_toolkit_are_the_pins() -> None:
    assert plan()["environment"] == {
        "CC": "gcc-10",
        "CXX": "g++-10",
        "CUDA_HOME": "/usr/local/cuda-11.3",
        "TORCH_CUDA_ARCH_LIST": "8.0",
    }


def test_a_login_node_gets_cudas_builds_and_is_asked_for_no_device() -> None:
    site = {"system": "mds", "root": "/r", "roles": "/roles", "gcc": "10", "device": "cuda"}
    here = pin_plans(PINS, ["e52bdabb"], site, read)[0]
    login = pin_plans(PINS, ["e52bdabb"], {**site, "devices_here": False}, read)[0]
    assert [check.pop("device") for check in (here["checks"][0], login["checks"][0])] == [
        "cuda",
        "cpu",
    ]
    assert login == here


def test_torch_2_on_gpus_is_asked_for_a_compiler_that_runs_find() -> None:
    site: dict[str, Any] = {"system": "mds", "root": "/r", "roles": "/roles", "device": "cuda"}
    site["compilers"] = {"CC": "/opt/gcc"}
    asked = [{"program": "compiler", "variables": {"CC": "/opt/gcc"}}]
    assert pin_plans(PINS, ["plain"], site, read)[0]["checks"] == asked
    for other in ({"device": "cpu"}, {"devices_here": False}):
        assert pin_plans(PINS, ["plain"], {**site, **other}, read)[0]["checks"] == []
    assert "compiler" not in [check["program"] for check in plan()["checks"]]  # torch 1.10
    newer = plan(torch={"version": "2.11.0"})["checks"]
    assert "compiler" in [check["program"] for check in newer]


def test_without_cuda_the_plain_builds_and_no_apex() -> None:
    found = plan(device="cpu")
    assert found["steps"][1] == {
        "name": "torch",
        "requirements": ["torch==1.10.1", "torchvision==0.11.2"],
    }
    assert "apex" not in [step["name"] for step in found["steps"]]
    assert [tree["name"] for tree in found["trees"]] == ["source"]
    assert found["left_out"] == {"apex": "cluster_device is cpu"}
    assert found["cuda_home"] == ""
    assert "environment" not in found["steps"][-1]  # DeepSpeed builds nothing at once
    assert [check["program"] for check in found["checks"]] == ["pytorch", "deepspeed", "imports"]


def test_patches_are_found_in_the_systems_role_or_apexs_and_tell_trees_apart() -> None:
    source, apex = plan()["trees"]
    digest = hashlib.sha256(b"a patch\n").hexdigest()
    assert source["patches"] == [["requirements.patch", "a patch\n"]]
    assert source["identity"] == [COMMIT, digest]
    assert source["path"] == f"{HOME}/src"
    assert source["untracked"] == ["__pycache__/", "*.egg-info/", "*.so"]
    assert apex["files"] == ["/roles/apex/files/patches/fix.patch"]
    assert apex["path"] == f"{HOME}/sources/apex"


def test_a_source_is_built_with_the_build_pins_or_else_with_what_it_asks_for() -> None:
    source = {"repository": "https://github.com/m/trainer", "commit": COMMIT, "install": "copy"}
    with_pins = plan("plain", source=source, build=["setuptools==79.0.1"])["steps"][-1]
    assert (with_pins["name"], with_pins["no_build_isolation"]) == ("source", True)
    assert plan("plain", source=source)["steps"][-1]["no_build_isolation"] is False


def test_a_commit_of_deepspeed_is_a_tree() -> None:
    block = {"version": "0.8.0", "repository": "https://github.com/m/DeepSpeed", "commit": COMMIT}
    found = plan(deepspeed=block)
    step = next(step for step in found["steps"] if step["name"] == "deepspeed")
    assert step["tree"]["path"] == f"{HOME}/sources/deepspeed"
    assert step["no_build_isolation"] is True


def test_a_wheels_name_says_what_it_holds() -> None:
    url = (
        "https://x.example/cu112/oneflow-0.8.0%2Bcu112.git.55b822e4-cp38-cp38-manylinux1_x86_64.whl"
    )
    step = plan("plain", oneflow={"wheel": url, "sha256": SUM})["steps"][-1]
    assert step["wheel"] == {
        "url": url,
        "sha256": SUM,
        "project": "oneflow",
        "version": "0.8.0+cu112.git.55b822e4",
        "file": "/opt/tb/systems/mds/plain/wheels/"
        "oneflow-0.8.0+cu112.git.55b822e4-cp38-cp38-manylinux1_x86_64.whl",
    }
    named = plan("plain", oneflow={"version": "0.8.0", "sha256": SUM})["steps"][-1]
    assert named == {"name": "oneflow", "requirements": ["oneflow==0.8.0"], "sha256": SUM}


def test_a_wheels_address_may_end_in_its_checksum() -> None:
    url = "https://x.example/toy-1.0-py3-none-any.whl"
    for wheels in ([{"url": f"{url}#sha256={SUM}"}], [{"url": url, "sha256": SUM}]):
        assert plan("plain", wheels=wheels)["steps"][-1]["wheel"] == {
            "url": url,
            "sha256": SUM,
            "project": "toy",
            "version": "1.0",
            "file": "/opt/tb/systems/mds/plain/wheels/toy-1.0-py3-none-any.whl",
        }
    unstated = plan("plain", wheels=[{"url": url}])["steps"][-1]["wheel"]
    assert (unstated["sha256"], unstated["key"]) == ("", "sha256 of mds's pin set plain, wheels")


def test_constraints_are_read_without_comments() -> None:
    assert plan("plain", constraints="locked.txt")["constraints"] == ["pydantic==1.10.13"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"requirements": ["numpy==1.*"]}, "'numpy==1.*' is not an exact pin"),
        ({"wheels": [{"url": "https://x/toy-1.0-py3-none-any.whl#md5=0"}]}, "write #sha256="),
        (
            {"oneflow": {"wheel": f"https://x/o-1-a-b-c.whl#sha256={SUM}", "sha256": "0" * 64}},
            f"plain, oneflow: https://x/o-1-a-b-c.whl has #sha256={SUM} and the key sha256: 0000",
        ),
        ({"constraints": "absent.txt"}, "there is no /roles/mds/files/constraints/absent.txt"),
        ({"source": {**SOURCE, "install": "egg"}}, "source: install is 'egg'; copy or editable"),
        ({"source": {**SOURCE, "patches": ["x.patch"]}}, "no /roles/mds/files/patches/x.patch"),
    ],
)
def test_what_cannot_hold_is_refused_by_name(more: dict[str, Any], words: str) -> None:
    with pytest.raises(PinError, match=words.replace("*", r"\*")):
        plan("plain", **more)


def test_a_pin_set_that_there_is_not_is_answered_with_those_there_are() -> None:
    with pytest.raises(PinError, match=r"mds has no pin set x; .* has e52bdabb, plain"):
        pin_plans(PINS, ["x"], {"system": "mds"}, read)


def test_the_patch_of_document_001_is_the_documents() -> None:
    folder = PROJECT / "roles" / "apex" / "files" / "patches"
    text = (folder / "22.03-allow-minor-cuda-difference.patch").read_text(encoding="utf-8")
    assert "index d76e998..f224dae 100644" in text
    assert "+        if bare_metal_minor != torch_binary_minor: return" in text
