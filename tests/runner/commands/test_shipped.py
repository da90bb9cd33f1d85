"""`matrices` and `docs`: what is shipped, listed and copied."""

from pathlib import Path

import pytest

from runner.__main__ import main
from runner.base.paths import PROJECT
from runner.commands.matrices import TITLES


def test_every_shipped_matrix_is_listed_with_what_it_compares(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["matrices"]) == 0
    said = capsys.readouterr().out
    shipped = list((PROJECT / "matrices").glob("*/*.yaml"))
    assert {path.parent.name for path in shipped} == set(TITLES)
    for path in shipped:
        assert f"matrices/{path.parent.name}/{path.name} " in said
    assert "Weak scaling of torch_gpt: the same work per device on 1, 2 and 4 nodes" in said


def test_one_is_copied_to_be_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["matrices", "--copy", "scaling"]) == 0
    assert Path("scaling.yaml").read_text() == (PROJECT / "matrices/start/scaling.yaml").read_text()
    assert main(["matrices", "--copy", "matrices/start/scaling.yaml"]) == 2
    assert main(["matrices", "--copy", "scalling"]) == 2
    said = capsys.readouterr()
    assert "wrote scaling.yaml" in said.out
    assert "scaling.yaml is there already" in said.err
    assert "did you mean 'scaling'?" in said.err


def test_documents_are_listed_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    assert "how-to/cluster " in capsys.readouterr().out
    for name in ("slurm", "docs/slurm.md", "cluster"):
        assert main(["docs", name]) == 0
        assert capsys.readouterr().out.startswith("# ")
    assert main(["docs", "../README"]) == 2
