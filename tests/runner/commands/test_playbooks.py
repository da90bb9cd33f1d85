"""`setup`, `verify`, `teardown`, on real playbooks: what is said, kept and stopped."""

import os
import signal
import threading
from pathlib import Path

import pytest

from runner.__main__ import main
from tests.golden.places import inventory

# A network of documentation: nobody answers there, until ssh has waited long enough.
NOBODY = {"nodes": {"hosts": {"far": {"ansible_host": "192.0.2.1"}}}}


def test_a_mistake_is_told_with_its_cure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = inventory(tmp_path / "rack", cluster_systems=["torch_gtp"])
    words = ["setup", "-i", str(place), "--runs", str(tmp_path), "--tags", "validate"]
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out.split()[:3] == ["validate", "localhost", "refused"]
    assert "did you mean 'torch_gpt'?" in out
    log = tmp_path / ".setup" / "rack-setup.log"
    assert err == f"error: setup failed on localhost (validate); Ansible's output: {log}\n"
    kept = log.read_text()
    assert "TASK [validate : " in kept
    assert kept.count("PLAY [") == 1  # and no play in which nothing was shown
    assert "included: " not in kept
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["setup", "-i", "nowhere"], "there is no inventory nowhere"),
        (["setup", "--tags", "datta"], "did you mean 'data'?"),
        (["verify", "--limit", "node9"], "leaves us with no hosts to target"),
        (["teardown"], "confirm with --yes"),
    ],
)
def test_what_cannot_begin_is_one_sentence(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--runs", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_ctrl_c_ends_ansible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = inventory(tmp_path / "rack", NOBODY)
    log = tmp_path / ".setup" / "rack-verify.log"
    done = threading.Event()

    def interrupt() -> None:
        while not (log.exists() and b"\n" in log.read_bytes()) and not done.wait(0.1):
            pass
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        assert main(["verify", "-v", "-i", str(place), "--runs", str(tmp_path)]) == 130
    finally:
        done.set()
        thread.join()
    assert capsys.readouterr().err.startswith("stopped; run the same command to continue.")
