"""A cell on a cluster as what each node runs; and launch.sh, which must run the same by hand."""

import json
import os
import socket
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from node.supervisor.placeholders import PORTS
from runner.base.dataclass_schema import read
from runner.base.errors import UserError
from runner.base.paths import BASE_PATH
from runner.plan import checks
from runner.plan.dryrun import describe, dry_run
from runner.plan.make import make_run, port_of
from runner.plan.script import launch_script
from runner.terms.cluster import Cluster
from runner.terms.orders import GRACE_S, LOG_CAP_BYTES, LOG_LIMIT_BYTES, NodeRun
from runner.terms.run import Run
from tests.runner.builders import slurm_cluster, small_cluster, small_matrix, small_run

HOME = "/opt/tb/systems/torch_gpt/torch-2.13"
CACHES = {
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "extensions",
    "TRITON_CACHE_DIR": "triton",
}
DATA = "/opt/tb/datasets/default"


def test_two_nodes_of_two_devices_get_these_command_lines() -> None:
    run = small_run({"nodes": 2, "devices_per_node": 2, "zero_stage": 1}, small_cluster(3))
    port = str(run.master_port)
    assert [node.host for node in run.nodes] == ["n1", "n2"]
    for rank, node in enumerate(run.nodes):
        assert list(node.argv[:14]) == [
            *(f"{HOME}/env/bin/python3", "-m", "torch.distributed.run"),
            *("--nnodes", "2", "--nproc_per_node", "2", "--node_rank", str(rank)),
            *("--master_addr", "10.0.0.1", "--master_port", port, f"{HOME}/src/train.py"),
        ]
        assert dict(node.env) == {
            "PATH": f"{HOME}/env/bin:{BASE_PATH}",
            "PYTHONUNBUFFERED": "1",
            "PYTHONFAULTHANDLER": "1",
            **{name: f"{HOME}/cache/{place}" for name, place in CACHES.items()},
            "OMP_NUM_THREADS": "1",
        }
        assert node.cwd == f"{HOME}/src"
        assert node.runs == "/opt/tb/runs"
        assert node.dir == f"/opt/tb/runs/{run.id}"
    assert run.nodes[0].argv[14:] == run.nodes[1].argv[14:]


def test_a_cell_without_pin_set_and_dataset_has_the_nodes_path_and_caches_of_its_own() -> None:
    (cell,) = small_matrix().cells
    run = make_run(
        small_matrix(), replace(cell, pin="", dataset=""), small_cluster(), campaign="m-rack"
    )
    node = run.nodes[0]
    assert node.env["PATH"] == BASE_PATH
    assert {node.env[name] for name in CACHES} == {f"{node.dir}/cache/{x}" for x in CACHES.values()}
    assert "/systems/" not in json.dumps([*node.env.values(), *node.argv, *node.requires])
    assert read(Run, run.to_json()).cell == run.cell


def test_only_the_first_node_needs_the_port_and_it_lies_below_the_ephemeral_range() -> None:
    run = small_run({"nodes": 2}, small_cluster())
    assert [node.ports for node in run.nodes] == [(run.master_port,), ()]
    assert all(20_000 <= port_of(f"run{n}") < 30_000 for n in range(200))
    assert len({port_of(f"run{n}") for n in range(200)}) > 190


def test_a_port_is_the_same_in_a_dry_run_and_another_at_the_next_try() -> None:
    first, again = (small_run({}, small_cluster()) for _ in range(2))
    assert first == again
    tries = [small_run({}, small_cluster(), port_try=n).master_port for n in range(3)]
    assert len(set(tries)) == 3
    assert tries[0] == first.master_port
    assert set(tries) < set(PORTS)


def test_a_run_is_named_by_campaign_cell_repeat_and_attempt() -> None:
    run = small_run({}, small_cluster(), repeat=3, attempt=2)
    assert run.id == f"m-rack/{run.cell.id}/r3a2"
    assert run.nodes[0].dir.endswith(run.id)


def test_what_a_run_requires_with_the_sizes_where_they_are_known() -> None:
    sizes = {"default_text_document.bin": 7, "vocab.json": 3}
    run = small_run({}, small_cluster(), dataset_sizes=sizes)
    assert run.nodes[0].requires == {
        f"{HOME}/src/train.py": None,
        f"{DATA}/default_text_document.bin": 7,
        f"{DATA}/default_text_document.idx": None,
        f"{DATA}/vocab.json": 3,
    }


def test_each_node_has_its_own_root() -> None:
    machines = small_cluster()
    other = replace(machines.nodes[1], root=type(machines.nodes[1].root)("/data"))
    run = small_run({"nodes": 2}, replace(machines, nodes=(machines.nodes[0], other)))
    assert run.nodes[1].argv[0] == f"/data/{HOME.removeprefix('/opt/tb/')}/env/bin/python3"
    assert run.nodes[1].cwd.startswith("/data/systems/")
    assert all(path.startswith("/data/") for path in run.nodes[1].requires)


BY_BUS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.mark.parametrize(
    ("device", "defaults", "cluster_env", "expected"),
    [
        ("cpu", {}, {}, {"OMP_NUM_THREADS": "1"}),
        ("cpu", {}, {"OMP_NUM_THREADS": "4"}, {"OMP_NUM_THREADS": "4"}),
        (
            "cpu",
            {"env": {"OMP_NUM_THREADS": "8"}},
            {"OMP_NUM_THREADS": "4", "GLOO_SOCKET_IFNAME": "eth0"},
            {"OMP_NUM_THREADS": "8", "GLOO_SOCKET_IFNAME": "eth0"},
        ),
        ("cpu", {"device_ids": [1]}, {}, {"OMP_NUM_THREADS": "1"}),
        ("cuda", {}, {}, BY_BUS),
        ("cuda", {"device_ids": [5, 1]}, {}, {**BY_BUS, "CUDA_VISIBLE_DEVICES": "5,1"}),
        (
            "cuda",
            {"device_ids": [5], "env": {"CUDA_VISIBLE_DEVICES": "GPU-1"}},
            {},
            {**BY_BUS, "CUDA_VISIBLE_DEVICES": "GPU-1"},
        ),
        ("cuda", {"env": {"PATH": "/mine"}}, {}, {**BY_BUS, "PATH": "/mine"}),
    ],
)
def test_the_cells_variables_win_over_the_clusters_and_those_over_the_systems(
    device: str, defaults: dict[str, Any], cluster_env: dict[str, str], expected: dict[str, str]
) -> None:
    run = small_run(defaults, small_cluster(devices=8, device=device, env=cluster_env))
    base = {
        "PATH": f"{HOME}/env/bin:{BASE_PATH}",
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        **{name: f"{HOME}/cache/{place}" for name, place in CACHES.items()},
    }
    assert dict(run.nodes[0].env) == {**base, **expected}


@pytest.mark.parametrize(
    ("defaults", "visible", "expected"),
    [
        ({}, "", (0, 1)),
        ({}, "6,7", (6, 7)),
        ({}, "4, 5,6,7", (4, 5)),
        ({"env": {"CUDA_VISIBLE_DEVICES": "3,2"}}, "6,7", (3, 2)),
        ({"device_ids": [1, 4]}, "", (1, 4)),
        ({}, "GPU-1,GPU-2", (0, 1)),  # whose numbers nobody knows here
        ({}, "7", (0, 1)),
        (
            {"system": "megatron_lm", "launcher": "deepspeed"},
            "6,7",
            (0, 1),
        ),  # chooses itself
    ],
)
def test_the_devices_of_a_run_are_those_that_its_processes_see(
    defaults: dict[str, Any], visible: str, expected: tuple[int, ...]
) -> None:
    env = {"CUDA_VISIBLE_DEVICES": visible} if visible else {}
    asked = defaults if "device_ids" in defaults else {"devices_per_node": 2, **defaults}
    run = small_run(asked, small_cluster(devices=8, device="cuda", env=env))
    assert run.nodes[0].device_ids == expected


def test_run_json_says_all_that_a_node_needs_and_what_a_reader_asks() -> None:
    cluster = small_cluster(lost_contact_s=7.0)
    found = small_matrix(time_limit_s=90, warmup_iters=2)
    run = make_run(found, found.cells[0], cluster, campaign="m-rack")
    content = json.loads(json.dumps(run.to_json()))
    assert content["schema"] == 1
    assert content["run_id"] == run.id
    assert content["cell"]["id"] == run.cell.id
    assert content["warmup_iters"] == 2
    assert content["supervisor"] == {
        "time_limit_s": 90.0,
        "stall_limit_s": 1800.0,
        "lost_contact_s": 7.0,
        "grace_s": GRACE_S,
        "log_cap_bytes": LOG_CAP_BYTES,
        "log_limit_bytes": LOG_LIMIT_BYTES,
    }
    assert set(content["nodes"][0]) == set(NodeRun.__dataclass_fields__)


def test_each_repeat_runs_with_its_seed_and_says_so_under_one_cell() -> None:
    found = small_matrix(seeds=[7, 8])
    cell = found.cells[0]
    runs = [
        make_run(found, cell, small_cluster(), campaign="m-rack", repeat=repeat)
        for repeat in (1, 2)
    ]
    for run, seed in zip(runs, (7, 8), strict=True):
        content = run.to_json()
        assert content["cell"]["parameters"]["seed"] == seed
        assert content["cell"]["id"] == cell.id
        argv = content["nodes"][0]["argv"]
        assert argv[argv.index("--seed") + 1] == str(seed)


def test_a_dry_run_names_the_seeds_and_shows_the_first() -> None:
    found = small_matrix(seeds=[7, 8])
    plans = dry_run(found, small_cluster())
    assert plans[0]["seeds"] == [7, 8]
    text = describe(plans, found, small_cluster())
    assert "then again, with seeds 7, 8 (below is the first)" in text
    assert "--seed 7" in text


# --- checks before anything is touched ------------------------------------------------------------


@pytest.mark.parametrize(
    ("defaults", "cluster", "words"),
    [
        ({"nodes": 3}, small_cluster(2), ["nodes is 3", "inventory rack has 2", "-i"]),
        ({"devices_per_node": 4}, small_cluster(), ["devices_per_node is 4", "n1 has 2"]),
        ({"device_ids": [0, 2]}, small_cluster(), ["device_ids names 2", "devices 0 to 1"]),
        (
            {"micro_batch_size": 3, "devices_per_node": 2},
            small_cluster(),
            ["data_parallel 2", "global_batch_size 16", "multiple of 6, or lower devices_per_node"],
        ),
        ({"micro_batch_size": 3, "devices_per_node": 1}, small_cluster(), ["a multiple of 3$"]),
        ({"train_iters": 0 + 1}, small_cluster(), ["train_iters 1", "to at least 3"]),
        ({"num_attention_heads": 3}, small_cluster(), ["does not divide hidden_size 128"]),
        (
            {"devices_per_node": 2, "tensor_parallel": 2, "pipeline_parallel": 2},
            small_cluster(),
            ["tensor_parallel 2 x pipeline_parallel 2 does not divide the 2 devices"],
        ),
        (
            {"devices_per_node": 2, "tensor_parallel": 2, "num_attention_heads": 1},
            small_cluster(),
            ["tensor_parallel 2 does not divide num_attention_heads 1"],
        ),
        ({"precision": "fp16"}, small_cluster(), ["fp16 needs a GPU"]),
        ({"split": "1,2"}, small_cluster(), ["split is '1,2'", "900,50,50"]),
        ({}, small_cluster(device="npu"), ["torch_gpt trains on cpu or cuda", "rack is npu"]),
        ({"nodes": 3}, slurm_cluster(2), ["slurm_nodes of the inventory rack is 2; lower it"]),
        ({"devices_per_node": 4}, slurm_cluster(), ["devices_per_node is 4, but a node has 2"]),
        (
            {"device_ids": [1]},
            slurm_cluster(),
            ["Slurm assigns the devices", "set devices_per_node: 1"],
        ),
        ({"partition": "gpu"}, small_cluster(), ["partition is a word for a scheduler", "is ssh"]),
        ({"env": {"WORLD_SIZE": "4"}}, small_cluster(), ["WORLD_SIZE is what the launcher gives"]),
        (
            {"env": {"CUDA_VISIBLE_DEVICES": "0"}, "devices_per_node": 2},
            small_cluster(device="cuda"),
            ["CUDA_VISIBLE_DEVICES is '0', and the cell uses 2 devices", "device_ids chooses"],
        ),
        (
            {"env": {"NOTE": "{node_addr_7}"}},
            slurm_cluster(),
            ["NOTE has {node_addr_7}, which a job of Slurm fills in"],
        ),
    ],
)
def test_a_cell_that_cannot_run_is_refused_by_name(
    defaults: dict[str, Any], cluster: Cluster, words: list[str]
) -> None:
    matrix = small_matrix(defaults=defaults, warmup_iters=2)
    with pytest.raises(UserError) as caught:
        checks.check_cells(matrix.cells, cluster, matrix.warmup_iters)
    for word in ("cell torch_gpt: ", *words):
        assert word in f"{caught.value}$"


# --- launch.sh ------------------------------------------------------------------------------------

EVIL = "a 'b' \"c\" $(touch owned) `id` ${HOME} {{ x }} !! \\ \t✓ é\nsecond\x1b[2J\x07\x9b\u202e\n"
SHOW = """#!/usr/bin/python3 -I
import json, os, sys
print(json.dumps({"argv": sys.argv, "env": dict(os.environ), "cwd": os.getcwd()}))
"""


@pytest.fixture
def evil_run(tmp_path: Path) -> Run:
    """A run of two nodes whose program shows what it got, with values that shells would change."""
    program = tmp_path / "it's a $program"
    program.write_text(SHOW)
    program.chmod(0o755)
    cwd = tmp_path / "work dir"
    cwd.mkdir()
    run = small_run({"nodes": 2, "env": {"EVIL": EVIL, "EMPTY": ""}}, small_cluster())
    nodes = tuple(
        replace(
            node,
            argv=(str(program), "", EVIL, "-n", "*", "~", f"rank{node.node_rank}"),
            cwd=str(cwd),
            dir=str(tmp_path / "run's dir" / str(node.node_rank)),
            files={"config.json": EVIL, "empty": ""},
        )
        for node in run.nodes
    )
    return replace(run, nodes=nodes)


def by_hand(run: Run, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = folder / "launch.sh"
    script.write_text(launch_script(run), encoding="utf-8")
    env = {"HOME": "/home/me", "USER": "me", "PATH": os.environ["PATH"], "SECRET": "not inherited"}
    return subprocess.run(
        ["bash", str(script), *arguments], capture_output=True, text=True, env=env, cwd=folder
    )


@pytest.mark.parametrize("rank", [0, 1])
def test_launch_sh_gives_the_argv_environment_and_files_of_run_json(
    evil_run: Run, tmp_path: Path, rank: int
) -> None:
    done = by_hand(evil_run, tmp_path, str(rank))
    assert done.returncode == 0, done.stderr
    node = json.loads(json.dumps(evil_run.to_json()))["nodes"][rank]
    got = json.loads(done.stdout)
    assert got["argv"] == node["argv"]
    assert got["cwd"] == node["cwd"]
    base = {"HOME": "/home/me", "USER": "me"}  # what was set of what the supervisor keeps, too
    got["env"].pop("LC_CTYPE", None)  # Python itself sets it where the locale is C
    assert got["env"] == {**base, **node["env"]}
    for name, text in node["files"].items():
        assert (Path(node["dir"]) / name).read_text(encoding="utf-8") == text
    assert not list(tmp_path.rglob("owned"))


def test_launch_sh_shows_nothing_that_a_terminal_would_obey(evil_run: Run) -> None:
    lines = launch_script(evil_run).splitlines()
    assert [line for line in lines if not line.replace("\t", "").isprintable()] == []


def test_launch_sh_asks_for_a_rank_where_there_are_several(evil_run: Run, tmp_path: Path) -> None:
    for arguments in ((), ("2",), ("x",)):
        done = by_hand(evil_run, tmp_path, *arguments)
        assert done.returncode == 2
        assert "usage: bash launch.sh NODE_RANK   (0 to 1)" in done.stderr


def test_launch_sh_of_one_node_needs_no_rank(evil_run: Run, tmp_path: Path) -> None:
    done = by_hand(replace(evil_run, nodes=evil_run.nodes[:1]), tmp_path)
    assert json.loads(done.stdout)["argv"][-1] == "rank0"


def test_launch_sh_passes_shellcheck(evil_run: Run, tmp_path: Path) -> None:
    script = tmp_path / "launch.sh"
    script.write_text(launch_script(evil_run), encoding="utf-8")
    done = subprocess.run(["shellcheck", "-S", "warning", str(script)], capture_output=True)
    assert done.returncode == 0, done.stdout.decode()


def test_this_machine_can_bind_the_ports_that_plans_use() -> None:
    """A guard on PORTS: they must lie outside the kernel's ephemeral range on this machine too."""
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(PORTS) < low
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert server.getsockname()[1] not in PORTS
