"""The built wheel in an environment of its own: each command finds what is shipped, and writes
only where one stands.
"""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from hatchling.build import build_wheel

from runner.base.paths import PROJECT, program
from tools.site.pages import documents
from tools.wheel_contents import PACKAGE, SHIPPED


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin/ of an environment that has the wheel, and sees this one's libraries alone."""
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(PROJECT)
        wheel = folder / build_wheel(str(folder))
    venv.create(folder / "env", symlinks=True)
    bin_folder = folder / "env" / "bin"
    (site,) = (folder / "env").glob("lib/python3*/site-packages")
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    (site / "libraries.pth").write_text("\n".join(libraries))
    pip = [sys.executable, "-m", "pip", "--python", str(bin_folder / "python")]
    subprocess.run(
        [*pip, "install", "-q", "--no-deps", "--no-index", "--no-compile", str(wheel)], check=True
    )
    for name in ("ansible-inventory", "ansible-playbook"):
        _, rest = Path(program(name)).read_text().split("\n", 1)
        (bin_folder / name).write_text(f"#!{bin_folder / 'python'}\n{rest}")
        (bin_folder / name).chmod(0o755)
    return bin_folder


def run(bin_folder: Path, where: Path, *words: str, code: int = 0) -> str:
    """What a command of the wheel prints (one that fails: on standard error); no folder of this
    checkout helps it.
    """
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    ran = subprocess.run(
        [bin_folder / words[0], *words[1:]],
        cwd=where,
        env={**kept, "PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stderr if code else ran.stdout


def test_help_names_the_command_as_it_was_called(installed: Path, tmp_path: Path) -> None:
    said = run(installed, tmp_path, "trainbench", "bench", "--help")
    assert "trainbench bench matrix.yaml" in said
    assert "python -m runner" not in said


def test_messages_name_the_command_as_it_was_called(installed: Path, tmp_path: Path) -> None:
    said = run(installed, tmp_path, "trainbench", "collect", code=2)
    assert "`trainbench bench matrix.yaml` makes" in said


def test_dry_run_is_of_the_folder_where_one_stands(installed: Path, tmp_path: Path) -> None:
    said = run(
        installed,
        tmp_path,
        "trainbench",
        "bench",
        "-m",
        "matrices/start/parallel.yaml",
        "--dry-run",
    )
    assert f"cwd  {tmp_path}/.trainbench/systems/torch_gpt/" in said
    assert list(tmp_path.iterdir()) == []  # a dry run leaves nothing


def test_playbooks_are_found_and_write_where_one_stands(installed: Path, tmp_path: Path) -> None:
    said = run(installed, tmp_path, "trainbench", "setup", "--tags", "validate")
    assert said.startswith("validate              localhost         ok ")
    assert [path.name for path in tmp_path.rglob("*.log")] == ["local-setup.log"]
    (shipped,) = installed.parent.glob(f"lib/python3*/site-packages/{PACKAGE}/shipped")
    assert {path.name for path in shipped.iterdir()} - {"__pycache__"} == {*SHIPPED}


def test_documents_have_what_is_written_from_the_code(installed: Path, tmp_path: Path) -> None:
    (shipped,) = installed.parent.glob(f"lib/python3*/site-packages/{PACKAGE}/shipped/docs")
    for name, text in documents().items():
        assert (shipped / name).read_text(encoding="utf-8") == text, name
    assert "\n| `ok` | " in run(installed, tmp_path, "trainbench", "docs", "runs")
    assert run(installed, tmp_path, "trainbench", "docs", "roles/cuda").startswith("# cuda\n")
    schema = json.loads(run(installed, tmp_path, "trainbench", "docs", "table.json"))
    row = schema["properties"]["rows"]["items"]["properties"]
    assert "samples_per_s" in row["figures"]["properties"]


def test_no_other_program_finds_its_modules(installed: Path, tmp_path: Path) -> None:
    for name in ("runner", "node", "plugins"):
        said = run(installed, tmp_path, "python", "-c", f"import {name}", code=1)
        assert f"ModuleNotFoundError: No module named '{name}'" in said


def test_a_notebook_has_a_campaign_as_a_frame(installed: Path, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(f"step {n}/9 | loss {10 - n}.5\n" for n in range(1, 10)))
    matrix = tmp_path / "m.yaml"
    log_keys = "{step: 'step (\\d+)/(\\d+)', loss: 'loss (\\S+)'}"
    matrix.write_text(
        f"defaults: {{system: command, cwd: /opt/x, argv: [train], log: {log_keys}}}\n"
    )
    words = ["import", str(log), "--matrix", str(matrix), "--into", "x", "--devices", "1"]
    run(installed, tmp_path, "trainbench", *words)
    code = "from trainbench_cluster import frame; import sys; before = list(sys.path);"
    code += " print(frame('x').final_loss[0]); print(sys.path == before)"
    assert run(installed, tmp_path, "python", "-c", code).split() == ["1.5", "True"]
