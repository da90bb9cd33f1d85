"""`init` on this machine, which answers as any does; real nodes: tests/on_nodes/test_init.py."""

from pathlib import Path

import pytest

from runner.__main__ import main
from runner.inventory.inventory import load_inventory


def test_this_machine_is_an_inventory_and_is_not_overwritten_unasked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    words = ["init", str(folder), "--hosts", "localhost", "--device", "cpu", "--root", "/tmp/tb"]
    assert main(words) == 0
    assert f"python -m runner setup -i {folder}" in capsys.readouterr().out
    cluster = load_inventory(folder)
    assert [(node.host, node.address) for node in cluster.nodes] == [("localhost", "127.0.0.1")]
    assert cluster.device == "cpu"
    before = (folder / "hosts.yml").read_text()
    (folder / "hosts.yml").write_text("mine")
    assert main(words) == 2
    assert "is an inventory already (hosts.yml, group_vars/all" in capsys.readouterr().err
    assert (folder / "hosts.yml").read_text() == "mine"
    assert main([*words, "--overwrite"]) == 0
    assert (folder / "hosts.yml").read_text() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no hosts were named; name them"),
        (["--hosts", "a", "--key", "/none/id"], "there is no file /none/id"),
        (["--hosts", "a", "--user", "a b"], "is not a user name"),
        (["--hosts", "a", "--root", "tb"], "it must be an absolute path"),
        (["--hosts", "a", "--root", "/{{ x }}"], "it must be an absolute path"),
        (["--hosts", "a", "--port", "0"], "is not a port"),
    ],
)
def test_bad_words_are_one_sentence_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["init", str(tmp_path / "mine"), *words]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "mine").exists()
