"""The variables and the program of a job whose supervisor srun has in a container."""

import pytest

from node.supervisor.processes import environment, program_of

OUTSIDE = {"argv": ["sh", "-c", "true"], "env": {"PATH": "/nowhere:/bin", "NOTE": "ours"}}
WITHIN = {**OUTSIDE, "env": {"NOTE": "ours"}, "step": ["--container-image=/x.sqsh"]}


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the image says, what Slurm and pyxis added, and what the run has another value for."""
    for name, value in {
        **{"PATH": "/bin", "CUDA_HOME": "/usr/local/cuda", "HOME": "/home/me", "NOTE": "image's"},
        **{"SLURM_PROCID": "3", "PMIX_RANK": "3", "PYXIS_VERSION": "0.20", "RANK": "3"},
        **{"MASTER_PORT": "9", "TRAINBENCH_SECRET_X": "x"},
    }.items():
        monkeypatch.setenv(name, value)


def test_an_images_variables_are_kept_and_slurms_are_not() -> None:
    env = environment(WITHIN)
    assert (env["CUDA_HOME"], env["NOTE"], env["PATH"]) == ("/usr/local/cuda", "ours", "/bin")
    gone = {"SLURM_PROCID", "PMIX_RANK", "PYXIS_VERSION", "RANK", "MASTER_PORT"}
    assert not (gone | {"TRAINBENCH_SECRET_X"}) & env.keys()


def test_outside_of_a_container_little_of_the_nodes_own_is_kept() -> None:
    env = environment(OUTSIDE)
    assert (env["HOME"], env["NOTE"], env["PATH"]) == ("/home/me", "ours", "/nowhere:/bin")
    assert "CUDA_HOME" not in env


def test_a_program_without_a_path_is_looked_for_where_the_job_looks() -> None:
    assert program_of(OUTSIDE) == program_of(WITHIN) == "/bin/sh"
    assert program_of({**OUTSIDE, "argv": ["/bin/sh"]}) == "/bin/sh"
    assert program_of({**OUTSIDE, "argv": ["no-such-program"]}) == ""
    assert program_of({**OUTSIDE, "argv": ["/etc/passwd"]}) == ""
