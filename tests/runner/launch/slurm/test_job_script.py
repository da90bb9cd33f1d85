"""What Slurm is given for a run: whole texts, and what they may not hold."""

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from runner.base.errors import UserError
from runner.launch.slurm.job_script import allocation_script, job_name, job_script, srun_argv
from runner.plan.make import make_run
from runner.terms.container_engines import Containers
from runner.terms.engines.slurm import Slurm
from runner.terms.engines.slurm_options import SlurmOption
from runner.terms.orders import Orders
from tests.runner.builders import slurm_cluster, small_matrix

ATTEMPT = PurePosixPath("/shared/runs/m-rack/cell/repeat1/attempt1")
OUTPUT = ATTEMPT / "slurm.out"


def planned(**defaults: Any) -> Orders:
    found = small_matrix(defaults={"nodes": 2, **defaults}, time_limit_s=90)
    cluster = slurm_cluster(2)
    return make_run(found, found.cells[0], cluster, campaign="m-rack", folder=ATTEMPT).orders


def script(slurm: Slurm, command: tuple[str, ...] = ("python3", "-c", "print('a b')")) -> str:
    return job_script(planned(), slurm, output=OUTPUT, comment="trainbench:1234", command=command)


def test_a_job_is_this_script() -> None:
    text = script(Slurm(nodes=4))
    name = job_name(planned().run_id)
    assert name.startswith("m-rack.torch_gpt-")
    assert name.endswith(".r1a1")
    assert text.splitlines() == [
        "#!/bin/bash",
        f"#SBATCH --job-name={name}",
        "#SBATCH --comment=trainbench:1234",
        "#SBATCH --nodes=2",
        "#SBATCH --ntasks=2",
        "#SBATCH --ntasks-per-node=1",
        "#SBATCH --time=7",  # 90 s and the margin of 300 s, in whole minutes
        "#SBATCH --no-requeue",
        "#SBATCH --output=/shared/runs/m-rack/cell/repeat1/attempt1/slurm.out",
        "#SBATCH --open-mode=append",
        "#SBATCH --export=ALL",
        "exec srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpu-bind=none --mpi=none"
        " --kill-on-bad-exit=1 --wait=0 --export=ALL --input=none --label"
        " python3 -c 'print('\"'\"'a b'\"'\"')'",
    ]


def test_every_key_that_is_set_is_a_line() -> None:
    slurm = Slurm(
        nodes=4,
        account="me",
        partition="gpu,fast",
        constraint="a100&ib",
        exclusive=True,
        gpus_per_node="a100:8",
        cpus_per_task=4,
        mem="0",
        switches="1@10:00",
        nice=-5,
        mpi="pmix",
        requeue=True,
        time_margin_s=60,
        options=(SlurmOption("--licenses=nccl:4"), SlurmOption("--no-kill")),
    )
    lines = script(slurm).splitlines()
    assert [line.removeprefix("#SBATCH ") for line in lines[6:-1]] == [
        "--time=3",
        "--account=me",
        "--partition=gpu,fast",
        "--constraint=a100&ib",
        "--exclusive",
        "--gpus-per-node=a100:8",
        "--cpus-per-task=4",
        "--mem=0",
        "--switches=1@10:00",
        "--nice=-5",
        "--requeue",
        f"--output={OUTPUT}",
        "--open-mode=append",
        "--export=ALL",
        "--licenses=nccl:4",
        "--no-kill",
    ]
    assert " --cpus-per-task=4 --cpu-bind=none --mpi=pmix " in lines[-1]


def test_launcher_srun_has_a_task_for_each_device() -> None:
    orders = planned(launcher="srun", devices_per_node=2)
    binding = (SlurmOption("--cpu-bind=cores"), SlurmOption("--distribution=block:cyclic"))
    slurm = Slurm(nodes=2, cpus_per_task=8, srun_args=binding)
    text = job_script(orders, slurm, output=OUTPUT, comment="c", command=("true",))
    head, srun = text.splitlines()[:-1], text.splitlines()[-1]
    for line in ("--ntasks=4", "--ntasks-per-node=2", "--cpus-per-task=4"):
        assert f"#SBATCH {line}" in head
        assert f" {line} " in srun
    assert " --cpu-bind=cores --distribution=block:cyclic " in srun
    assert "--cpu-bind=none" not in srun


def test_what_a_cell_asks_for_is_in_place_of_the_inventorys() -> None:
    orders = planned(partition="fast", exclude="n[7-8]")
    slurm = Slurm(nodes=2, partition="gpu", constraint="ib", gres="none")
    text = job_script(orders, slurm, output=OUTPUT, comment="c", command=("true",))
    assert [line for line in text.splitlines() if "partition" in line or "exclude" in line] == [
        "#SBATCH --partition=fast",
        "#SBATCH --exclude=n[7-8]",
    ]
    assert "--constraint=ib" in text
    assert "gres" not in text


def test_the_words_of_a_command_reach_the_shell_as_they_are() -> None:
    words = ("printf", "%s\n", "$HOME `id` $(id)", "a\nb", "'", '"', "é", "")
    last = script(Slurm(nodes=2), words).partition("--label ")[2]
    assert tuple(shlex.split(last)) == words
    said = subprocess.run(["bash", "-c", f"exec {last}"], capture_output=True, text=True)
    assert said.stdout == "".join(f"{word}\n" for word in words[2:])


def test_a_job_passes_shellcheck(tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text(script(Slurm(nodes=2, exclusive=True)))
    subprocess.run(["shellcheck", path], check=True)


@pytest.mark.parametrize("folder", ["/my runs/x", "/a%j/x", "/a\\b/x", "/a#b/x", "/é/x"])
def test_a_folder_that_slurm_would_take_for_another_is_refused(folder: str) -> None:
    with pytest.raises(UserError, match="name another folder with --runs"):
        job_script(
            planned(), Slurm(nodes=2), output=PurePosixPath(folder), comment="c", command=("true",)
        )


def test_a_word_of_run_json_makes_no_line_of_its_own() -> None:
    orders = replace(planned(), placement={"partition": "gpu\n#SBATCH --uid=0"})
    with pytest.raises(UserError, match=r"a line of job.sh is .*; it must be one word"):
        job_script(orders, Slurm(nodes=2), output=OUTPUT, comment="c", command=("true",))


def test_a_step_of_an_allocation_names_its_job_and_nodes() -> None:
    argv = srun_argv(
        Slurm(nodes=4),
        2,
        ("true",),
        job_id=17,
        nodelist=("n1", "n2"),
        output=OUTPUT,
        overlap=True,
    )
    assert argv == (
        *("srun", "--jobid=17", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1"),
        *("--nodelist=n1,n2", "--overlap", "--cpu-bind=none", "--mpi=none"),
        *("--kill-on-bad-exit=1", "--wait=0", "--export=ALL", "--input=none", "--label"),
        *(f"--output={OUTPUT}", "--open-mode=append", "true"),
    )


def test_srun_has_the_tasks_in_a_container_of_pyxis() -> None:
    found = small_matrix(defaults={"nodes": 2, "pin": "container"})
    cluster = replace(
        slurm_cluster(2, root="/shared/tb", device="cuda"),
        containers=Containers("pyxis"),
        secrets=("HF_TOKEN",),
    )
    orders = make_run(found, found.cells[0], cluster, campaign="m-rack", folder=ATTEMPT).orders
    line = job_script(
        orders, Slurm(nodes=2), output=OUTPUT, comment="c", command=("python3", "-c", "pass")
    ).splitlines()[-1]
    within = (
        "--export=HOME,USER,LOGNAME,NVIDIA_VISIBLE_DEVICES=all,NVIDIA_DRIVER_CAPABILITIES=all"
        ",TRAINBENCH_SECRET_HF_TOKEN"
        " --container-image=/shared/tb/systems/torch_gpt/container/image.sqsh"
        " --container-mounts=/shared/runs/m-rack:/shared/runs/m-rack,/shared/tb:/shared/tb"
        " --no-container-mount-home --no-container-remap-root --no-container-entrypoint"
        " --container-writable"
    )
    assert f" --wait=0 {within} --input=none --label python3 -c pass" in line
    assert orders.nodes[0].argv[0] == "python3"
    assert "PATH" not in orders.nodes[0].env  # the image has its own
    kept = replace(cluster, engine=Slurm(nodes=2, mode="allocation"))
    orders = make_run(found, found.cells[0], kept, campaign="m-rack", folder=ATTEMPT).orders
    argv = srun_argv(Slurm(nodes=2), 2, ("true",), orders=orders, job_id=17)
    assert any(word.startswith("--container-name=trainbench-17-") for word in argv)


def test_an_allocation_holds_its_nodes_for_all_runs() -> None:
    text = allocation_script(
        Slurm(nodes=4, mode="allocation", partition="gpu", requeue=True),
        name="my matrix-rack",
        nodes=3,
        devices=1,
        time_s=3600,
        output=PurePosixPath("/shared/runs/m-rack/allocation.out"),
        comment="trainbench:1",
        command=("python3", "-c", "pass"),
    )
    lines = text.splitlines()
    assert lines[1] == "#SBATCH --job-name=my.matrix-rack"
    assert "#SBATCH --nodes=3" in lines
    assert "#SBATCH --time=65" in lines
    assert "#SBATCH --no-requeue" in lines  # one that came back would hold nodes for nobody
    assert lines[-1] == "exec python3 -c pass"


def test_nodes_have_words_for_what_only_the_job_knows() -> None:
    orders = planned(devices_per_node=2)
    (first, second) = orders.nodes
    assert (first.host, second.host) == ("rank0", "rank1")
    assert (first.dir, second.dir) == (
        str(ATTEMPT / "nodes/0000-rank0"),
        str(ATTEMPT / "nodes/0001-rank1"),
    )
    argv = " ".join(second.argv)
    assert "--node_rank 1 --master_addr {master_addr} --master_port {master_port}" in argv
    assert len(first.ports) == 1  # the wanted one; the job's node rank 0 may take another
    assert second.ports == ()


def asked(slurm: Slurm, **cell: Any) -> list[str]:
    """What a job of a cell asks for, besides its nodes, time and output."""
    found = planned(**cell)
    text = job_script(found, slurm, output=OUTPUT, comment="trainbench:1234", command=("true",))
    words = [line.removeprefix("#SBATCH ") for line in text.splitlines()[2:-1]]
    common = ("--nodes", "--ntasks", "--time", "--no-requeue", "--output", "--open-", "--export")
    return [word for word in words if not word.startswith(common)]


def test_a_cell_asks_for_queue_account_and_resources_of_its_own() -> None:
    slurm = Slurm(nodes=2, account="ours", mem="4G", options=(SlurmOption("--licenses=a:1"),))
    cell = {"slurm_account": "theirs", "slurm_qos": "debug", "slurm_mem": "0", "slurm_nice": 5}
    more = {"slurm_options": ["--licenses=b:2"], "slurm_comment": "P-17", "slurm_exclusive": True}
    assert asked(slurm, **cell, **more, slurm_dependency="afterok:7") == [
        "--comment=trainbench:1234,P-17",
        "--account=theirs",
        "--qos=debug",
        "--exclusive",
        "--mem=0",
        "--nice=5",
        "--dependency=afterok:7",
        "--licenses=b:2",
    ]
    assert asked(Slurm(nodes=2, exclusive=True), slurm_exclusive=False) == [
        "--comment=trainbench:1234"
    ]
    assert "--exclusive=user" in asked(Slurm(nodes=2, exclusive_user=True))


@pytest.mark.parametrize(
    ("slurm", "devices", "option"),
    [
        ({"gpus_per_node": "cell"}, 1, "--gpus-per-node=1"),
        ({"gpus_per_node": "a100:cell"}, 2, "--gpus-per-node=a100:2"),
        ({"gres": "gpu:a100:cell,nvme:1"}, 2, "--gres=gpu:a100:2,nvme:1"),
    ],
)
def test_a_cell_of_one_gpu_takes_one(slurm: dict[str, str], devices: int, option: str) -> None:
    assert option in asked(Slurm(nodes=2, **slurm), devices_per_node=devices)  # type: ignore[arg-type]


def test_gpus_of_a_cell_replace_both_ways_of_the_inventorys() -> None:
    found = asked(Slurm(nodes=2, gres="gpu:8"), slurm_gpus_per_node=1)
    assert found == ["--comment=trainbench:1234", "--gpus-per-node=1"]


def test_what_a_cell_may_not_ask_is_refused() -> None:
    placement = {"slurm_options": ("--output=x",)}
    assert list(Slurm(nodes=2).cell_faults(placement, "rack", "cpu", 2)) == [
        "slurm_options has --output, which bench sets itself; take it out"
    ]
    few = {"slurm_gpus_per_node": "1"}
    (fault,) = Slurm(nodes=2).cell_faults(few, "rack", "cuda", 2)
    assert fault.startswith("slurm_gpus_per_node asks for 1 GPUs a node")
