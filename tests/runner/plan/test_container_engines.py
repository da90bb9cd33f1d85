"""What each container engine is told for a run on Slurm, whole; and which engine a site has.

No pyxis, enroot or Apptainer can be had here: their command lines are compared with texts that were
written from their documentation and sources. docs/containers.md says how far each was seen to run.
"""

import subprocess
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from node.supervisor.processes import SIGNATURE
from node.supervisor.slurm_environment import DEVICES
from runner.base.errors import UserError
from runner.inventory import site_engine
from runner.plan import checks
from runner.plan.containers import wrap
from runner.terms.container_engines import ENGINES, Container, Containers, Mount
from runner.terms.engines.slurm import Slurm
from runner.terms.engines.ssh import Ssh
from runner.terms.run import Command, NodeContext
from tests.runner.builders import small_cluster, small_matrix, small_run

ROOT = PurePosixPath("/shared/tb")
CAMPAIGN = PurePosixPath("/shared/runs/m")
SCRATCH = PurePosixPath("/local/me")
HOME = ROOT / "systems/torch_gpt/container"
RUN_DIR = CAMPAIGN / "torch_gpt-1/repeat1/attempt1/nodes/0001-rank1"
NAME = "trainbench-6c182e36bd37-1"


def command(**more: Any) -> Command:
    argv = more.pop("argv", ("python3", "-m", "torch.distributed.run", "--node_rank=1"))
    requires = {f"{HOME}/src/train.py": 9, "/usr/bin/pdsh": None, f"{CAMPAIGN}/x": None}
    return Command(argv, {}, f"{HOME}/src", requires=requires, **more)


def on_slurm(
    engine: str,
    *options: str,
    lasting: bool = False,
    campaign: PurePosixPath = CAMPAIGN,
    **more: Any,
) -> Command:
    """The second of two nodes, with GPUs."""
    context = NodeContext(
        node_rank=1,
        nnodes=2,
        nproc_per_node=8,
        addresses=("a", "b"),
        master_address="a",
        master_port="{master_port}",
        home=HOME,
        dataset=ROOT / "datasets/d",
        run_dir=RUN_DIR,
        device="cuda",
        device_ids=None,
        image="localhost/x:container",
        containers=Containers(engine, options=options),
        scratch="" if ENGINES[engine].writable else f"{SCRATCH}/run",
    )
    slurm = Slurm(nodes=2, mode="allocation" if lasting else "job")
    cluster = small_cluster(
        root=str(ROOT), engine=slurm, scratch=SCRATCH, containers=context.containers
    )
    return wrap(command(**more), ("NOTE", "HF_TOKEN"), context, cluster, campaign)


def test_pyxis_has_srun_put_the_whole_task_into_the_container() -> None:
    wrapped = on_slurm("pyxis", "--container-env=NCCL_VERSION")
    assert wrapped.step == (
        f"--container-image={HOME}/image.sqsh",
        f"--container-mounts={CAMPAIGN}:{CAMPAIGN},{ROOT}:{ROOT}",
        *("--no-container-mount-home", "--no-container-remap-root"),
        *("--no-container-entrypoint", "--container-writable", "--container-env=NCCL_VERSION"),
    )
    assert wrapped.argv == command().argv
    assert wrapped.after == ()
    assert wrapped.requires == {
        f"{HOME}/src/train.py": 9,
        f"{CAMPAIGN}/x": None,
        f"{HOME}/image.sqsh": None,
    }


def test_pyxis_unpacks_the_image_once_a_node_where_the_job_has_more_runs() -> None:
    named = "--container-name=trainbench-{job_id}-e2a482287128"
    assert named in on_slurm("pyxis", lasting=True).step


def test_apptainer_runs_the_file_where_it_lies() -> None:
    wrapped = on_slurm("apptainer", "--writable-tmpfs")
    assert wrapped.argv == (
        *("apptainer", "exec", "--nv", f"--home={SCRATCH}/run", f"--pwd={HOME}/src"),
        *("--writable-tmpfs", f"--bind={SCRATCH}/run:{SCRATCH}/run"),
        *(f"--bind={CAMPAIGN}:{CAMPAIGN}", f"--bind={ROOT}:{ROOT}"),
        *(f"{HOME}/image.sif", *command().argv),
    )
    assert (wrapped.step, wrapped.after) == ((), ())
    assert on_slurm("singularity").argv[0] == "singularity"


def test_podman_takes_the_file_into_a_storage_on_the_nodes_own_disk() -> None:
    wrapped = on_slurm("podman")
    images = f"{SCRATCH}/trainbench-images-2687f289"
    podman = (
        *("/usr/bin/podman", "--log-level=fatal", "--cgroup-manager=cgroupfs"),
        *("--storage-driver=overlay",),
        "--storage-opt=overlay.ignore_chown_errors=true",
        *(f"--root={images}/storage", f"--runroot={images}/run"),
    )
    names = ("NOTE", "HF_TOKEN", *DEVICES, *SIGNATURE)
    variables = [word for name in names for word in ("--env", name)]
    assert wrapped.argv == (
        *(*podman, "run", "--rm", "--quiet", "--name", NAME, "--network=host", "--ipc=host"),
        "--device=nvidia.com/gpu=all",
        *("--volume", f"{CAMPAIGN}:{CAMPAIGN}", "--volume", f"{ROOT}:{ROOT}"),
        *("--workdir", f"{HOME}/src", *variables),
        *(f"docker-archive:{HOME}/image.tar", *command().argv),
    )
    assert wrapped.after == ((*podman, "rm", "--force", "--ignore", "--time=0", NAME),)
    assert wrapped.step == ()


@pytest.mark.parametrize("engine", ENGINES)
def test_no_engine_mounts_a_home_or_has_a_value_in_its_words(engine: str) -> None:
    wrapped = on_slurm(engine)
    words = " ".join((*wrapped.argv, *wrapped.step))
    assert "/root" not in words.replace("--runroot", "")
    assert "HF_TOKEN=" not in words


def test_a_folder_within_another_is_mounted_once() -> None:
    mount = Mount("/a", "/a")
    words = ENGINES["pyxis"].step(Container("/x.sqsh", mounts=(mount, Mount("/b", "/c", True))))
    assert "--container-mounts=/a:/a,/b:/c:ro" in words


def test_what_is_compiled_in_a_container_goes_with_it_or_lies_with_the_pin_set() -> None:
    """Apptainer's has the node's /tmp, where any user could have put a cache before."""
    places = {}
    for engine in ("podman", "docker", "apptainer", "singularity"):
        cluster = small_cluster(containers=Containers(engine))
        env = small_run({"system": "torch_gpt", "pin": "container"}, cluster).nodes[0].env
        places[engine] = [env.get("TORCHINDUCTOR_CACHE_DIR"), env.get("TRITON_CACHE_DIR")]
    cache = "/opt/tb/systems/torch_gpt/container/cache"
    own = [f"{cache}/inductor", f"{cache}/triton"]
    none = [None, None]
    assert places == {"podman": none, "docker": none, "apptainer": own, "singularity": own}


def test_ssh_into_a_container_of_apptainer_is_refused() -> None:
    over_ssh = {"pin": "container", "nodes": 2, "launcher": "deepspeed", "engine": "deepspeed"}
    cluster = small_cluster(containers=Containers("apptainer"))
    with pytest.raises(UserError, match="over ssh, which a container of apptainer does not let in"):
        checks.check_cells(small_matrix(defaults=over_ssh).cells, cluster, 0)


def test_runs_in_a_folder_that_no_engine_can_mount_are_refused() -> None:
    campaign = PurePosixPath("/shared/a,b/m")
    with pytest.raises(UserError, match=r"folder \(--runs\) is /shared/a,b/m, and pyxis"):
        on_slurm("pyxis", campaign=campaign)
    assert on_slurm("podman", campaign=campaign).argv


SLURM: dict[str, Any] = {"engine": Slurm(nodes=2), "scratch": SCRATCH}


@pytest.mark.parametrize(
    ("engine", "more", "words"),
    [
        ("docker", SLURM, "does not reach here; name one of podman, apptainer, singularity, pyxis"),
        ("podman", {"engine": SLURM["engine"]}, "each node's own; set cluster_scratch"),
        ("podman", {"root_shared": True}, "each node's own; set cluster_scratch"),
        ("pyxis", {}, "which srun alone can start; name one of podman, docker, apptainer"),
        ("pyxis", {**SLURM, "root": "/a,b"}, r"n1 is /a,b, and pyxis cannot mount a path with"),
        ("podman", {**SLURM, "scratch": PurePosixPath("/a:b")}, "cluster_scratch is /a:b, and pod"),
    ],
)
def test_an_engine_that_cannot_run_it_is_refused(engine: str, more: Any, words: str) -> None:
    cluster = small_cluster(containers=Containers(engine), **more)
    with pytest.raises(UserError, match=words.replace("rank1", "n1")):
        checks.check_cells(
            small_matrix(defaults={"pin": "container", "nodes": 2}).cells, cluster, 0
        )


# Which engine a site has


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """PATH has only the programs that are asked for; `srun --help` says what is given."""

    def build(*programs: str, srun: str = "") -> str:
        for name in programs:
            (tmp_path / name).write_text("#!/bin/sh\n")
            (tmp_path / name).chmod(0o755)
        if srun:
            (tmp_path / "srun").write_text(f"#!/bin/sh\necho '  {srun}=PATH   [pyxis] the image'\n")
            (tmp_path / "srun").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        site_engine.engine_found.cache_clear()
        return site_engine.engine_named("", Slurm)

    yield build
    site_engine.engine_found.cache_clear()


@pytest.mark.parametrize(
    ("programs", "srun", "engine"),
    [
        (["apptainer", "podman"], "--container-image", "pyxis"),
        (["apptainer", "podman", "singularity"], "--container", "apptainer"),
        (["singularity"], "", "singularity"),
        ([], "", "podman"),
    ],
)
def test_the_engine_is_the_one_that_the_site_has(
    site: Any, programs: list[str], srun: str, engine: str
) -> None:
    assert site(*programs, srun=srun) == engine


def test_a_named_engine_is_taken_and_ssh_has_podman(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: Any, **__: Any) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "run", asked)
    site_engine.engine_found.cache_clear()
    assert site_engine.engine_named("apptainer", Slurm) == "apptainer"
    assert site_engine.engine_named("", Ssh) == "podman"
