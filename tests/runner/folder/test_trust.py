"""Folders of runs that somebody else could write to, before or now: refused, and nothing of theirs
is opened, emptied or executed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runner.base.errors import UserError
from runner.folder.campaign import Campaign
from runner.folder.events import add, events
from runner.folder.stored import write_json, write_script
from runner.launch.node_lock import claimed
from runner.launch.playbook import run_playbook
from runner.launch.private import private_folder
from runner.launch.slurm import program

OTHER = 4242  # a user that this machine does not have
TASK = "supervisor.task:task"
root_alone = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder away")


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    made = Campaign(tmp_path / "runs" / "m-rack")
    with made.locked():
        pass
    return made


def refused(campaign: Campaign, group: str = "") -> str:
    try:
        with campaign.locked(group):
            pass
    except UserError as error:
        return str(error)
    return ""


def test_a_campaign_that_others_can_write_to_is_refused(campaign: Campaign) -> None:
    assert refused(campaign) == ""
    campaign.path.chmod(0o777)
    assert f"then: chmod o-w {campaign.path}" in refused(campaign)


def test_a_folder_of_runs_that_others_can_write_to_is_refused_and_no_folder_stays(
    tmp_path: Path,
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    runs.chmod(0o777)
    assert f"chmod o-w {runs}" in refused(Campaign(runs / "new"))
    assert list(runs.iterdir()) == []


@root_alone
@pytest.mark.parametrize("inside", ["cell-1", "cell-1/repeat1/attempt1", "programs", "inspect"])
def test_what_was_left_in_it_while_it_was_open_is_refused(campaign: Campaign, inside: str) -> None:
    left = campaign.path / inside
    left.mkdir(parents=True)
    assert refused(campaign) == ""
    os.chown(left, OTHER, OTHER)
    assert f"{left} belongs to user {OTHER}" in refused(campaign)


@root_alone
def test_a_link_to_a_folder_that_another_left_is_refused(
    campaign: Campaign, tmp_path: Path
) -> None:
    link = campaign.path / "cell-1"
    link.symlink_to(tmp_path)
    os.chown(link, OTHER, OTHER, follow_symlinks=False)
    assert f"{link} belongs to user {OTHER}" in refused(campaign)


@pytest.mark.parametrize("make", [os.symlink, os.link])
def test_a_lock_that_leads_to_another_file_empties_nothing(
    campaign: Campaign, tmp_path: Path, make: object
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    campaign.lock.unlink()
    assert callable(make)
    make(precious, campaign.lock)
    assert not campaign.is_locked()
    assert "is not a plain file" in refused(campaign)
    assert precious.read_text() == "mine"


def test_a_claim_that_leads_to_another_file_empties_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with claimed({"node": "n1"}, tmp_path):
        (lock,) = (tmp_path / "trainbench" / "in-use").iterdir()
        assert lock.read_text() == str(tmp_path)
    precious = tmp_path / "precious"
    precious.write_text("mine")
    lock.unlink()
    lock.symlink_to(precious)
    with pytest.raises(UserError, match="is not a plain file"), claimed({"node": "n1"}, tmp_path):
        pass
    assert precious.read_text() == "mine"


def test_no_file_is_written_through_a_link(campaign: Campaign, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in ("campaign.json", "launch.sh", "events.jsonl"):
        (campaign.path / name).symlink_to(precious)
    write_json(campaign.path / "campaign.json", {})
    write_script(campaign.path / "launch.sh", "#!/bin/sh\n")
    from runner.folder.events import CAMPAIGN_BEGUN, Event

    with pytest.raises(OSError, match="link"):
        add(campaign.path, Event(event=CAMPAIGN_BEGUN, at=1.0, campaign="m"))
    assert events(campaign.path) == []
    assert precious.read_text() == "mine"
    assert (campaign.path / "launch.sh").stat().st_mode & 0o777 == 0o700


def test_what_setup_makes_of_runs_is_this_users_alone_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.launch.playbook.program", lambda name: "/bin/true")
    log = tmp_path / "runs" / ".setup" / "x-setup.log"
    before = os.umask(0)
    try:
        run_playbook("setup.yml", tmp_path, (), log, verbose=False)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (log.parent, log.parent.parent)} == {0o700}
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_log_of_setup_is_written_through_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.launch.playbook.program", lambda name: "/bin/true")
    log, precious = tmp_path / "x-setup.log", tmp_path / "precious"
    precious.write_text("mine")
    log.symlink_to(precious)
    run_playbook("setup.yml", tmp_path, (), log, verbose=False)
    assert (precious.read_text(), log.is_symlink()) == ("mine", False)


def test_the_private_folders_of_ansible_runner_are_in_no_open_folder(tmp_path: Path) -> None:
    private = tmp_path / ".ansible"
    with private_folder(private):
        pass
    private.chmod(0o777)
    with pytest.raises(UserError, match="chmod o-w"), private_folder(private):
        pass


def test_programs_that_were_left_before_are_not_run_on_a_jobs_nodes(campaign: Campaign) -> None:
    """The name of their file is a checksum, and names the content."""
    file = campaign.path / "programs" / program._modules(TASK, campaign.path)[0].name
    mark = campaign.path / "mark"
    file.parent.mkdir()
    theirs = f"open({str(mark)!r}, 'w')"
    file.write_text(json.dumps({"node.bootstrap": theirs}))
    argv = program.argv(sys.executable, TASK, campaign.path, {})
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert "is not what was left there" in ran.stderr
    assert not mark.exists()
    program.leave(TASK, campaign.path)
    assert file.read_text() == program._modules(TASK, campaign.path)[1]
