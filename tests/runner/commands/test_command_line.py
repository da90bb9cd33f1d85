"""The command line as a whole: what a command does not know."""

import json

import pytest

from runner.__main__ import main


@pytest.mark.parametrize("unknown", ["--nope", "nodes=1"])
def test_an_unknown_argument_is_named_with_the_command_that_does_not_take_it(
    unknown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["rerun", "folder", unknown])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert "rerun [-h]" in error
    assert f"unknown argument {unknown}; `" in error
    assert "rerun --help` lists all that it takes" in error


def test_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["collect", "--nope", "--format", "json"])
    assert "unknown argument --nope" in json.loads(capsys.readouterr().out)["error"][0]
