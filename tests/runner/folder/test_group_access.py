"""A campaign that a trusted group may read, and nobody else; nothing of another's is changed."""

import grp
import os
import stat
from pathlib import Path

import pytest

from runner.base.errors import UserError
from runner.folder import names
from runner.folder.campaign import Campaign
from runner.folder.group_access import refuse_other_group
from runner.folder.stored import write_json

root_alone = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder away")
GROUP = next(group for group in grp.getgrall() if group.gr_gid not in (0, os.getegid()))


def access(path: Path) -> tuple[int, int]:
    facts = path.lstat()
    return stat.S_IMODE(facts.st_mode), facts.st_gid


@root_alone
@pytest.mark.parametrize("umask", [0, 0o077])
def test_the_group_reads_runs_that_ended_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    (tmp_path / "other").write_text("another's")
    (tmp_path / "other").chmod(0o600)
    before = os.umask(umask)
    try:
        campaign = Campaign(tmp_path / "runs" / "m-rack")
        with campaign.locked(GROUP.gr_name):
            attempt = campaign.new_attempt("cell-1", 1)
            done = attempt.path / names.node(0, "n1") / "done.json"
            write_json(done, {})
            done.chmod(0o600)
            (attempt.path / "link").symlink_to(tmp_path / "other")
            campaign.share(attempt.path)
            for folder in (done.parent, attempt.path, campaign.path, tmp_path / "runs"):
                assert access(folder) == (0o2750, GROUP.gr_gid)
            assert access(done) == (0o640, GROUP.gr_gid)
            late = campaign.path / "late.json"
            write_json(late, {})
    finally:
        os.umask(before)
    assert access(late)[0] & 0o040
    assert access(late)[1] == GROUP.gr_gid
    assert access(tmp_path / "other") == (0o600, os.getegid())
    with Campaign(campaign.path).locked(GROUP.gr_name):
        pass  # it is trusted again


@root_alone
def test_a_folder_of_runs_that_was_there_before_stays_as_it_is(tmp_path: Path) -> None:
    runs = tmp_path / "home"
    runs.mkdir(mode=0o700)
    with Campaign(runs / "m-rack").locked(GROUP.gr_name):
        pass
    assert access(runs) == (0o700, os.getegid())
    assert access(runs / "m-rack") == (0o2750, GROUP.gr_gid)


@root_alone
def test_what_another_user_owns_stays_as_it_is(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path / "runs" / "m-rack")
    with campaign.locked(GROUP.gr_name):
        others = campaign.path / "others"
        others.write_text("another's")
        others.chmod(0o600)
        os.chown(others, 4242, 4242)
    assert access(others) == (0o600, 4242)


def test_a_group_of_others_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="names the group nobody-of-here, which this machine"):
        refuse_other_group("nobody-of-here")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getgroups", list)
    with pytest.raises(UserError, match=f"you are not in the group {GROUP.gr_name} that"):
        refuse_other_group(GROUP.gr_name)


@root_alone
def test_a_folder_that_cannot_be_given_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", denied)
    runs = tmp_path / "runs"
    with (
        pytest.raises(UserError, match=f"cannot be given to the group {GROUP.gr_name}: "),
        Campaign(runs / "m-rack").locked(GROUP.gr_name),
    ):
        pass
    assert list(runs.iterdir()) == []
