"""Secrets by name alone: in no plan, no file, no command line; and what a node may name."""

import subprocess
import uuid
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from node.env.environment import Environment
from node.env.indexes import sources
from node.env.pip import pip
from plugins.launching.fetched_files import fetchable
from runner.base.errors import UserError
from runner.base.masking import is_secret
from runner.inventory.inventory import parse_inventory
from runner.launch import play
from runner.plan.dryrun import dry_run
from runner.plan.script import launch_script
from tests.golden.places import stood_in
from tests.runner.builders import small_cluster, small_matrix, small_run

VALUE = "hf_0123456789"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *(
            (name, True)
            for name in ("HF_TOKEN", "WANDB_API_KEY", "PGPASSWORD", "AWS_SESSION_TOKEN")
        ),
        *((name, True) for name in ("AWS_SECRET_ACCESS_KEY", "my_credentials", "KEY_PASSPHRASE")),
        *((name, False) for name in ("TOKENIZERS_PARALLELISM", "tokens", "NCCL_DEBUG", "PATH")),
    ],
)
def test_what_is_named_like_a_secret(name: str, secret: bool) -> None:
    assert is_secret(name) == secret


def listed(**env: Any) -> dict[str, Any]:
    """What `ansible-inventory --list` says of two nodes."""
    facts = {"cluster_root": "/opt/tb", "cluster_devices_per_node": 2, "cluster_env": env}
    hosts = {name: {"ansible_host": name, **facts} for name in ("a", "b")}
    return {"nodes": {"hosts": list(hosts)}, "_meta": {"hostvars": hosts}}


@pytest.mark.parametrize("value", [VALUE, "{{ lookup('env', 'X') }}", {"__ansible_vault": VALUE}])
def test_an_inventorys_secret_is_read_by_name_alone(value: Any) -> None:
    found = parse_inventory(listed(HF_TOKEN=value, NCCL_DEBUG="INFO"), Path("inventory/x"))
    assert (found.secrets, found.env) == (("HF_TOKEN",), {"NCCL_DEBUG": "INFO"})
    assert VALUE not in repr(found)
    rotated = parse_inventory(listed(HF_TOKEN="other", NCCL_DEBUG="INFO"), Path("inventory/x"))
    assert rotated.digest == found.digest


SET = {"HF_TOKEN": VALUE}


@pytest.mark.parametrize(
    "more",
    [{"defaults": {"env": SET}}, {"axes": {"env": [SET]}}, {"include": [{"env": SET}]}],
)
def test_a_matrix_with_a_secret_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(UserError) as caught:
        small_matrix(**more)
    assert "HF_TOKEN looks like a secret" in str(caught.value)
    assert "cluster_env" in str(caught.value)
    assert VALUE not in str(caught.value)


def test_the_deepspeed_launcher_on_several_nodes_refuses_secrets() -> None:
    """It starts `ssh NODE "export HF_TOKEN=...; ..."`, which everyone there can read."""
    cells = small_matrix(
        defaults={
            "launcher": "deepspeed",
            "pin": "deepspeed-0.19",
            "nodes": 2,
            "devices_per_node": 1,
        }
    )
    plain = small_cluster()
    dry_run(cells, plain)
    with pytest.raises(UserError) as caught:
        dry_run(cells, replace(plain, secrets=("HF_TOKEN",)))
    assert "the deepspeed launcher writes HF_TOKEN into command lines" in str(caught.value)


def test_launch_sh_asks_for_a_secret(tmp_path: Path) -> None:
    run = small_run({"nodes": 1}, replace(small_cluster(), secrets=("HF_TOKEN",)))
    assert run.to_json()["secrets"] == ["HF_TOKEN"]
    node = replace(run.nodes[0], dir=str(tmp_path / "run"), cwd=str(tmp_path))
    show = replace(node, argv=("/usr/bin/env",))
    script = tmp_path / "launch.sh"
    script.write_text(launch_script(replace(run, nodes=(show,))))
    subprocess.run(["shellcheck", str(script)], check=True)

    def launched(**variables: str) -> subprocess.CompletedProcess[str]:
        known = {"PATH": "/usr/bin:/bin", **variables}
        return subprocess.run(["bash", str(script)], env=known, capture_output=True, text=True)

    assert "HF_TOKEN: set it first: its value is kept in the inventory alone" in launched().stderr
    assert "HF_TOKEN=a 'b' $c\n" in launched(HF_TOKEN="a 'b' $c").stdout


def test_a_play_that_failed_leaves_no_environment_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ansible-runner's folder stays for a look, without the file that holds all variables."""
    secret = f"secret-{uuid.uuid4().hex}"
    monkeypatch.setenv("MY_OWN_TOKEN", secret)
    played = play.play(
        "bench.yml",
        stood_in(tmp_path / "inventory", tmp_path / "root"),
        hosts=["localhost"],
        variables={"launch_gate": str(tmp_path / "none")},
        private=tmp_path / "private",
        cancelled=lambda: False,
    )
    assert not played.ok
    left = [path for path in (tmp_path / "private").rglob("*") if path.is_file()]
    assert any(path.name == "stdout" for path in left)
    assert [path for path in left if secret.encode() in path.read_bytes()] == []


def test_an_indexs_password_is_in_no_command_line(tmp_path: Path) -> None:
    """A stand-in for pip, which writes down how it was called."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    spec = {"index": f"https://me:{VALUE}@host/simple", "extra_index": "", "find_links": ""}
    lines = sources({**spec, "mirrors": {}}, [])
    assert lines == [f"--index-url https://me:{VALUE}@host/simple"]
    there = {"python": str(python), "path": str(tmp_path), "home": str(tmp_path)}
    stand_in = SimpleNamespace(**there, spec={"environment": {}})
    pip(cast(Environment, stand_in), "step", {}, [*lines, "six==1.16.0"], [])
    said = (tmp_path / "logs" / "step.log").read_text()
    assert "pip install" in said
    assert VALUE not in said


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        *((name, True) for name in ("samples.csv", "stacks.txt", "tensorboard/a/tfevents.1.h")),
        *((name, True) for name in ("node0.nsys-rep", "profile/rank0.json.gz")),
        *((name, True) for name in ("profile/iteration_12/rank0_trace.json", "profile/a.nsys-rep")),
        *(
            (name, False)
            for name in ("job.json", "profile/a", "profile/../job.json", "profile/.json")
        ),
        *((name, False) for name in ("/a.nsys-rep", "other/a.nsys-rep", "tensorboard/a.json")),
        ("tensorboard/../../../tfevents", False),
        ("/tensorboard/tfevents", False),
        ("tensorboard//tfevents", False),
        ("tensorboard/.tfevents", False),
        ("tensorboard/other", False),
        ("tensorboard/tfevents\n", False),
        ("tensorboard/" + "a/" * 600 + "tfevents", False),
        ("run.json", False),
    ],
)
def test_a_node_names_no_file_but_its_own(name: str, taken: bool) -> None:
    assert fetchable(name) == taken
