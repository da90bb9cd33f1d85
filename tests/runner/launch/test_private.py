"""What ansible-runner's folders hold, and what becomes of those whose runner was killed."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

from runner.folder import names
from runner.folder.campaign import Campaign
from runner.launch.play import play
from runner.launch.private import private_folder
from tests.golden.places import stood_in

PLAY = """
import sys
from pathlib import Path
from runner.launch.play import play
play("bench.yml", Path(sys.argv[1]), hosts=["localhost"], variables={},
     private=Path(sys.argv[2]), cancelled=lambda: False)
"""


def killed(inventory: Path, private: Path, secret: str) -> None:
    """A play whose runner is killed before Ansible says its first word."""
    environ = {**os.environ, "MY_OWN_TOKEN": secret}
    argv = [sys.executable, "-c", PLAY, str(inventory), str(private)]
    with subprocess.Popen(argv, env=environ) as process:
        until = time.monotonic() + 60
        while not list(private.glob("tmp*/artifacts/play/stdout")):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)


def test_a_killed_runner_leaves_no_secret_and_the_next_one_sweeps(tmp_path: Path) -> None:
    """Point 10: `command` held the whole environment, and stayed."""
    inventory = stood_in(tmp_path / "inventory", tmp_path / "root")
    private = tmp_path / "runs" / ".ansible"
    secret = f"secret-{uuid.uuid4().hex}"
    killed(inventory, private, secret)
    (left,) = private.glob("tmp*")
    files = [path for path in left.rglob("*") if path.is_file()]
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
    until = time.monotonic() + 60
    while left.exists():  # the killed runner's Ansible may still write there until it ends itself
        assert time.monotonic() < until
        play(
            "bench.yml",
            inventory,
            hosts=["localhost"],
            variables={},
            private=private,
            cancelled=lambda: False,
        )


def test_a_living_plays_folder_is_never_swept_nor_one_that_failed(tmp_path: Path) -> None:
    with private_folder(tmp_path) as living:
        failed = tmp_path / "tmp-failed" / "artifacts" / "play"
        failed.mkdir(parents=True)
        (failed / "rc").write_text("2")
        older = tmp_path / "tmp-older" / "artifacts" / "play"  # of a version without locks
        older.mkdir(parents=True)
        (older / "command").write_text("HF_TOKEN")
        with private_folder(tmp_path) as other:
            assert living.is_dir()
            assert other != living
            assert (failed / "rc").exists()
            assert not (tmp_path / "tmp-older").exists()


def test_half_written_files_of_a_killed_bench_go_with_the_lock(tmp_path: Path) -> None:
    """And what only looks like one stays."""
    campaign = Campaign(tmp_path / "campaign")
    node = campaign.path / "cell-01234567" / "repeat1" / "attempt1" / "nodes" / "0000-n1"
    (node / names.EVENTS).mkdir(parents=True)
    half = [
        *(campaign.path / ".campaign.json.tmp", node / ".done.json.tmp", node / names.PART),
        node.parent.parent / ".halt.0123456789abcdef",
    ]
    kept = [node / names.LOG, node / names.EVENTS / ".tmp", node / "prepared", node / ".halt.0"]
    for path in [*half, *kept]:
        path.write_text("")
    with campaign.locked():
        assert [path for path in half if path.exists()] == []
        assert [path for path in kept if not path.exists()] == []
