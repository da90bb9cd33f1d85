"""A pin set that is an image: whole command lines, what is refused, and the image itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from node import image, pin
from node.image_engine import ImageError
from plugins.filter.pins import PinError, pin_plans
from roles.trainer.action_plugins import pins as plugin
from runner.base import dataclass_schema
from runner.base.errors import UserError
from runner.inventory.inventory import parse_inventory
from runner.plan import checks
from runner.plan.containers import image_of
from runner.terms.cluster import Cluster
from runner.terms.container_engines import Containers
from runner.terms.run import Run
from tests.runner.builders import small_cluster, small_matrix, small_run

CELL = {"pin": "container", "nodes": 2}
OVER_SSH = {**CELL, "launcher": "deepspeed", "engine": "deepspeed"}
DOCKER = Containers("docker", 2223, ("--device=/dev/infiniband",))
HOME = "/opt/tb/systems/torch_gpt/container"
IMAGE = "localhost/trainbench/torch_gpt:container"


def name_of(run: Run, rank: int) -> str:
    return run.nodes[rank].argv[run.nodes[rank].argv.index("--name") + 1]


def test_a_nodes_command_is_the_engines() -> None:
    run = small_run(CELL, small_cluster(env={"NOTE": "word"}, secrets=("HF_TOKEN",)))
    node = run.nodes[1]
    named = name_of(run, 1)
    assert node.argv[: node.argv.index(IMAGE)] == (
        *("/usr/bin/podman", "run", "--rm", "--pull=never", "--name", named),
        *("--network=host", "--ipc=host", "--volume", "/opt/tb:/opt/tb"),
        *("--workdir", f"{HOME}/src"),
        *("--env", "PYTHONUNBUFFERED", "--env", "PYTHONFAULTHANDLER"),
        *("--env", "OMP_NUM_THREADS", "--env", "NOTE", "--env", "HF_TOKEN"),
        *("--env", "PYTHON_TRAINBENCH_RUN", "--env", "TRAINBENCH_SUPERVISOR"),
    )
    assert node.argv[node.argv.index(IMAGE) + 1 :][:3] == ("python3", "-m", "torch.distributed.run")
    assert "word" not in " ".join(node.argv)
    assert node.env["NOTE"] == "word"
    assert node.env["PATH"].startswith("/usr/local/sbin:")
    assert all(path.startswith("/opt/tb/") for path in node.requires)
    assert node.after == (("/usr/bin/podman", "rm", "--force", "--ignore", "--time=0", named),)
    assert not node.serves


def test_names_are_of_the_run_and_the_node() -> None:
    runs = [small_run(CELL, small_cluster(root=root)) for root in ("/opt/tb", "/srv/tb")]
    assert len({name_of(run, rank) for run in runs for rank in (0, 1)}) == 4


def test_gpus_and_options_are_the_clusters() -> None:
    argv = small_run(CELL, small_cluster(device="cuda", containers=DOCKER)).nodes[0].argv
    assert argv[0] == "/usr/bin/docker"
    assert argv[argv.index("--ipc=host") + 1 :][:2] == ("--gpus=all", "--device=/dev/infiniband")
    argv = small_run(CELL, small_cluster(device="cuda")).nodes[0].argv
    assert "--device=nvidia.com/gpu=all" in argv


def test_between_containers_the_launcher_works_over_ssh() -> None:
    first, second = small_run(OVER_SSH, small_cluster(containers=DOCKER)).nodes
    mounts = [first.argv[at + 1] for at, word in enumerate(first.argv) if word == "--volume"]
    assert mounts == [
        "/opt/tb:/opt/tb",
        f"{HOME}/mesh:/etc/trainbench/mesh:ro",
        "/etc/ssh/ssh_host_ed25519_key:/etc/trainbench/ssh_host_ed25519_key:ro",
    ]
    within = first.argv[first.argv.index(IMAGE) + 1 :]
    assert "--tmpfs=/root/.ssh:mode=700" in first.argv
    assert within[:3] == ("trainbench-sshd", "2223", "deepspeed")
    assert second.argv[second.argv.index(IMAGE) + 1 :] == ("trainbench-sshd", "2223")
    assert (first.serves, second.serves) == (False, True)
    for node in (first, second):
        assert 2223 in node.ports
        assert f"{HOME}/mesh/authorized_keys" in node.requires
        assert "/usr/bin/pdsh" not in node.requires  # the image has it
        assert "PATH" not in node.files[".deepspeed_env"]  # nor the node's


def test_on_one_node_the_launcher_needs_no_ssh() -> None:
    (node,) = small_run({**OVER_SSH, "nodes": 1}, small_cluster()).nodes
    assert node.argv[node.argv.index(IMAGE) + 1] == "deepspeed"
    assert "--volume" in node.argv
    assert not node.serves


def test_run_json_brings_it_back() -> None:
    run = small_run(OVER_SSH, small_cluster())
    assert dataclass_schema.read(Run, json.loads(json.dumps(run.to_json()))) == run


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (small_cluster(root="/opt/t:b"), r"cluster_root of n1 is /opt/t:b, and podman cannot"),
    ],
)
def test_what_no_container_can_have_is_refused(cluster: Cluster, words: str) -> None:
    with pytest.raises(UserError, match=words):
        checks.check_cells(small_matrix(defaults=CELL).cells, cluster, 0)


def read(**variables: Any) -> Containers:
    said = {"cluster_root": "/opt/tb", "cluster_devices_per_node": 1, **variables}
    listed = {"nodes": {"hosts": ["a"]}, "_meta": {"hostvars": {"a": said}}}
    return parse_inventory(listed, Path("inventory/x")).containers


def test_the_inventory_says_how_containers_run() -> None:
    assert read() == Containers("podman", 2222, ())
    assert (
        read(
            cluster_container_engine="docker",
            cluster_container_ssh_port=2223,
            cluster_container_options=["--device=/dev/infiniband"],
        )
        == DOCKER
    )


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"cluster_container_engine": "lxc"}, "is 'lxc'; it must be one of podman, docker"),
        ({"cluster_container_ssh_port": "22"}, "is '22'; it must be a port"),
        ({"cluster_container_options": "--x"}, "must be a list of options"),
        ({"cluster_container_options": ["--device /dev/x", "y"]}, "must be a list of options"),
    ],
)
def test_a_wrong_key_is_named(variables: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        read(**variables)


def test_only_a_set_key_makes_another_cluster() -> None:
    plain, other = small_cluster(), small_cluster(containers=DOCKER)
    assert plain.digest == small_cluster(containers=Containers()).digest != other.digest


# What setup makes of it


def plans(**more: Any) -> dict[str, Any]:
    pin = {"image": {"base": "docker.io/library/python:3"}, "requirements": ["torch==2"], **more}
    site = {"system": "mds", "root": "/opt/tb/systems", "roles": "/roles", "device": "cuda"}
    return pin_plans({"one": pin}, ["one"], site, lambda _: "")[0]


def test_a_pin_sets_image_is_a_base_and_pins() -> None:
    found = plans(build=["wheel==1"], deepspeed={"version": "0.5.1"})
    assert found["steps"] == []
    assert found["image"] == {
        "image": "localhost/trainbench/mds:one",
        "base": "docker.io/library/python:3",
        "requirements": [["wheel==1"], ["torch==2"], ["deepspeed==0.5.1"]],
    }
    # the image's own compiler: it is the container that trains
    assert [check["program"] for check in found["checks"]] == ["deepspeed", "compiler"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"python": "3.8"}, "one, which is an image: 'python' is not a key"),
        ({"image": {"base": "x", "tag": "y"}}, "one, image: 'tag' is not a key"),
        ({"requirements": [{"requirements": ["a==1"], "no_deps": True}]}, "no_deps' is not a key"),
    ],
)
def test_what_an_image_cannot_be_is_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(PinError, match=words):
        plans(**more)


def test_only_a_pin_set_with_an_image_has_an_images_name() -> None:
    assert image_of("torch_gpt", "container") == IMAGE
    assert image_of("torch_gpt", "torch-2.13") == ""


# The program on the node, with an engine that is a script


def spec_of(folder: Path, said: str) -> dict[str, Any]:
    """`said` is what the engine answers to every question: the boundary, its program, stands in."""
    engine = folder / "podman"
    engine.write_text(f"#!/bin/sh\nprintf '%s' '{said}'\n")
    engine.chmod(0o755)
    return {
        **{"engine": str(engine), "image": IMAGE, "base": "b", "requirements": [["torch==2"]]},
        **{"files": {}, "home": str(folder), "mirrors": {}, "index": "", "extra_index": ""},
        **{
            "find_links": "",
            "address": "a",
            "file": "",
            "made": [],
            "supervised": False,
            "build": [],
        },
    }


def test_an_image_is_looked_at_by_its_id_and_recipe(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "")
    assert image.look(spec)["faults"] == [f"the image {IMAGE} is not there"]
    spec = spec_of(tmp_path, "sha256:" + "ab" * 32)
    assert "is not the one that setup put here" in image.look(spec)["faults"][0]
    record = {
        "image": "ab" * 32,
        "recipe": image.recipe(spec),
        "python": "3",
        "lines": ["Torch==2"],
    }
    (tmp_path / "image.json").write_text(json.dumps(record))
    said = image.look(spec)
    assert (said["faults"], said["image"], said["versions"]) == ([], "ab" * 32, {"torch": "2"})
    other = image.look({**spec, "requirements": [["torch==3"]]})
    assert "is of another base, pin or build file" in other["faults"][0]
    with pytest.raises(ImageError, match="does not hold what its lock says; run setup"):
        image.verify(spec)


def test_an_engine_that_is_not_there_is_named_with_the_cure(tmp_path: Path) -> None:
    spec = {**spec_of(tmp_path, ""), "engine": "/usr/bin/no-podman"}
    with pytest.raises(
        ImageError,
        match=r"no-podman is not installed, .*_engines: \[no-podman\]",
    ):
        image.look(spec)


def test_pips_own_configuration_is_the_sites(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "")
    mirrors = {"pip": {"https://pypi.org/": "https://u:p@pip.example.org/"}}
    text = image.pip_conf({**spec, "mirrors": mirrors, "find_links": "https://x.example/w"})
    assert text.splitlines() == [
        "[global]",
        "index-url = https://u:p@pip.example.org/simple",
        "find-links = https://x.example/w",
    ]
    with pytest.raises(ImageError, match="/srv/wheels is a folder, which is not seen"):
        image.pip_conf({**spec, "find_links": "/srv/wheels"})


@pytest.mark.parametrize(
    ("device", "answer", "fault"),
    [
        ("cuda", 'echo "GPU 0: stand-in"', ""),
        (
            "cuda",
            "printf \"no capability\\n\\nRun 'docker run --help'\\n\" >&2; exit 125",
            "no capability; see NVIDIA's",
        ),
        ("cuda", "exit 0", "it names no GPU; see"),
        ("cpu", "exit 1", ""),
    ],
)
def test_nvidia_smi_runs_in_the_image_where_there_is_a_gpu(
    device: str, answer: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is a script here, and a file of ours the driver's."""
    plans = pin_plans(
        {"p": {"image": {"base": "b"}}},
        ["p"],
        {"system": "s", "root": "/opt/tb/systems", "roles": "/r", "device": device},
    )
    env = dict.fromkeys(("existing", "index", "extra_index", "find_links", "mirrors"), "")
    about = {"engine": "docker", "device": device, "files": {}, "archives": "/a", "shared": False}
    site = {"system": "s", "script": "", "files": {}, "tree": {}, "env": env, "image": about}
    question = plugin.questions(plans, site)[0]
    engine = tmp_path / "docker"
    engine.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/asked\n{answer}\n')
    engine.chmod(0o755)
    question["within"] = [str(engine), *question["within"][1:]]
    monkeypatch.setattr(pin, "DRIVER", str(engine))
    found = pin.container_faults(question)
    assert len(found) == bool(fault)
    assert fault in "".join(found)
    assert (tmp_path / "asked").exists() == (device == "cuda")
    if device == "cuda":
        words = (tmp_path / "asked").read_text().split()
        assert "--gpus=all" in words
        assert words[-3:] == ["localhost/trainbench/s:p", "nvidia-smi", "-L"]
        monkeypatch.setattr(pin, "DRIVER", str(tmp_path / "no driver"))
        assert pin.container_faults(question) == []
