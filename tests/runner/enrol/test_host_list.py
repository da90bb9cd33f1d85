"""Which machines are meant, by words, hostfiles and Slurm."""

import os
from pathlib import Path

import pytest

from runner.base.errors import UserError
from runner.enrol import host_list
from runner.enrol.ssh_probe import key_lines

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIKq1y0iPM7x7b6Xx3l9oX8n4b0G1n1n3Zq8o5zY2Zp5J"


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for Slurm's own two programs, which only a Slurm cluster has."""
    for name, script in {
        "scontrol": '[ "$4" = "n[01-02]" ] && printf "n01\\nn02\\n"',
        "sinfo": 'case "$*" in *=gpu*) printf "n01\\nn02\\nn01\\n" ;; esac',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def names(machines: tuple[host_list.Machine, ...]) -> list[tuple[str, str]]:
    return [(machine.name, machine.address) for machine in machines]


def test_words() -> None:
    assert names(host_list.from_words(["a,b=10.0.0.2", "c=fe80::1 a"])) == [
        ("a", "a"),
        ("b", "10.0.0.2"),
        ("c", "fe80::1"),
    ]
    assert host_list.from_words(["localhost"])[0].local


@pytest.mark.usefixtures("slurm")
def test_slurm_names_them() -> None:
    assert names(host_list.from_words(["n[01-02],x"])) == [
        ("n01", "n01"),
        ("n02", "n02"),
        ("x", "x"),
    ]
    assert names(host_list.from_partition("gpu")) == [("n01", "n01"), ("n02", "n02")]
    with pytest.raises(UserError, match=r"no nodes in a partition cpu; `sinfo -s` lists"):
        host_list.from_partition("cpu")


def test_without_slurm_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"^scontrol is not on this machine; start it where"):
        host_list.from_words(["n[01-02]"])


def test_a_hostfile_is_read_as_the_inventory_of_allocations_reads_it(tmp_path: Path) -> None:
    (tmp_path / "hostfile").write_text("# two\ngpu01 slots=8\n\ngpu02 slots=4\n")
    found = host_list.from_hostfile(tmp_path / "hostfile")
    assert [(one.name, one.devices) for one in found] == [("gpu01", 8), ("gpu02", 4)]
    (tmp_path / "hostfile").write_text("gpu01 slots=eight\n")
    with pytest.raises(UserError, match=r"hostfile, line 1: .*slots"):
        host_list.from_hostfile(tmp_path / "hostfile")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no hosts were named"),
        (["-oProxyCommand=x"], "-oProxyCommand"),
        (["a=-oProxyCommand"], "-oProxyCommand"),
        (["a=1.1.1.1", "a=1.1.1.2"], "a is named with two addresses"),
        (["me@a"], "write a alone, and the user as --user me"),
        (["localhost", "b"], "other hosts cannot reach this machine"),
        (["{{x}}"], "NAME=ADDRESS"),
    ],
)
def test_words_that_are_no_hosts(words: list[str], said: str) -> None:
    with pytest.raises(UserError) as refused:
        host_list.from_words(words)
    assert said in str(refused.value)


def test_of_what_a_machine_shows_as_its_host_key_only_a_key_is_recorded() -> None:
    good = f"10.0.0.1 ssh-ed25519 {KEY}"
    hostile = [
        f"@cert-authority * ssh-ed25519 {KEY}",
        f"* ssh-ed25519 {KEY} command",
        f"* ssh-ed25519,ssh-rsa {KEY}",
        "* ssh-ed25519 AAAA",
        "* ssh-rsa not!base64",
        "# 10.0.0.1:22 SSH-2.0-x",
    ]
    said = "\n".join([*hostile, good, good])
    assert key_lines("gpu01", said) == (f"gpu01 ssh-ed25519 {KEY}",)
