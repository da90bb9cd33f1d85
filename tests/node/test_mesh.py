"""mesh.py on this machine: what other nodes said reaches ssh's files as keys alone."""

import base64
import os
import pwd
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from node import mesh
from node.answer import ProgramError
from node.mesh_lines import block, with_block
from node.schema import UnfitError
from node.validated_text import SshKey

MARK = "# BEGIN trainbench: made by TrainBench's role ssh_mesh"


def key(kind: str = "ssh-ed25519", inside: str = "") -> str:
    inside = inside or kind
    blob = len(inside).to_bytes(4, "big") + inside.encode() + bytes([0, 0, 0, 32, *range(32)])
    return f"{kind} {base64.b64encode(blob).decode()}"


KEY = key()


def nodes(**second: Any) -> list[dict[str, Any]]:
    first = {"name": "node1", "addresses": ["10.1.0.1"], "host_keys": [KEY]}
    other = {"name": "node2", "addresses": ["10.1.0.2"], "host_keys": [KEY]}
    return [first, {**other, **second}]


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    own = pwd.getpwuid(os.getuid())
    home = {"pw_dir": str(tmp_path), "pw_uid": own.pw_uid, "pw_gid": own.pw_gid}
    user = SimpleNamespace(pw_name="trainee", **home)
    monkeypatch.setattr(mesh, "account", lambda _: user)
    return {
        **{"node": "node1", "user": "", "name": "trainbench", "host_keys": "", "mark": MARK},
        **{"nodes": nodes(), "key": KEY, "ports": [22, 2222], "check": False},
    }


def test_a_node_knows_the_others_once(spec: dict[str, Any], tmp_path: Path) -> None:
    ssh = tmp_path / ".ssh"
    ssh.mkdir(mode=0o700)
    foreign = "ssh-ed25519 AAAA \udcff someone".encode("utf-8", "surrogateescape")
    (ssh / "authorized_keys").write_bytes(foreign)
    (ssh / "config").write_text("Host elsewhere\n    HostName 192.0.2.1")
    for path in ssh.iterdir():
        path.chmod(0o600)
    assert mesh.trust({**spec, "check": True}) == {"changed": True}
    assert not (ssh / "trainbench").exists()
    assert mesh.trust(spec) == {"changed": True}
    assert mesh.trust(spec) == {"changed": False}
    assert mesh.left(spec)["marked"] == ["authorized_keys", "config"]
    assert mesh.own_lines(mesh.account(spec), "AAAA \udcff") == [
        foreign.decode(errors="surrogateescape")
    ]
    line = f'from="10.1.0.1,10.1.0.2" {KEY} trainbench'
    lines = (ssh / "authorized_keys").read_bytes().split(b"\n")
    assert lines[:3] == [foreign, MARK.encode(), line.encode()]
    config = (ssh / "config").read_text().splitlines()
    assert config[1] == f"Include {ssh}/trainbench/config"
    assert config[-2:] == ["Host elsewhere", "    HostName 192.0.2.1"]
    known = (ssh / "trainbench" / "known_hosts").read_text().splitlines()
    assert known[2] == f"node2,10.1.0.2,[node2]:2222,[10.1.0.2]:2222 {KEY}"
    ours = (ssh / "trainbench" / "config").read_text()
    assert (
        "Host node2 10.1.0.2\n    HostName 10.1.0.2\nHost node1 10.1.0.1 node2 10.1.0.2\n" in ours
    )
    assert (ssh / "trainbench" / "authorized_keys").read_text() == line + "\n"
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (ssh / "trainbench").iterdir()}
    assert modes == {0o600}


@pytest.mark.parametrize(
    "second",
    [
        {"host_keys": [f"* {KEY}"]},
        {"host_keys": [KEY + "\n* " + KEY]},
        {"host_keys": [KEY + " x"]},
        {"host_keys": ["@cert-authority * " + KEY]},
        {"host_keys": [key("ssh-ed25519", "ssh-rsa")]},
        {"host_keys": ["ssh-ed25519 !!!!"]},
        {"host_keys": ["ssh-ed25519 " + "A" * 9_000]},
        {"host_keys": ["ssh-ed25519 AAA"]},
        {"host_keys": [KEY] * 17},
        {"host_keys": []},
        {"host_keys": KEY},
        {"addresses": ["10.1.0.2\nProxyCommand touch /tmp/x"]},
        {"addresses": ["10.1.0.2 *"]},
        {"addresses": ["-oProxyCommand=x"]},
        {"addresses": ["*"]},
        {"addresses": ["%h"]},
        {"name": "node2 *"},
        {"name": "node2\nMatch all"},
        {"name": ["node2"]},
    ],
)
def test_what_a_node_gives_is_checked_where_it_is_written(
    spec: dict[str, Any], tmp_path: Path, second: dict[str, Any]
) -> None:
    with pytest.raises(UnfitError):
        mesh.trust({**spec, "nodes": nodes(**second)})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["", f"{KEY}\nssh-ed25519 AAAA", f"command=x {KEY}", f'*" {KEY}'])
def test_a_mesh_key_is_one_key(spec: dict[str, Any], tmp_path: Path, given: str) -> None:
    with pytest.raises(UnfitError):
        mesh.trust({**spec, "key": given})
    assert list(tmp_path.iterdir()) == []


def test_another_private_key_than_the_one_let_in_is_refused(
    spec: dict[str, Any], tmp_path: Path
) -> None:
    made = mesh.make(spec)
    private = (tmp_path / ".ssh" / "trainbench" / "id_ed25519").read_text()
    assert mesh.put({**spec, "key": made["key"], "private": private}) == made
    with pytest.raises(ProgramError, match="is not the private key that the other nodes let in"):
        mesh.put({**spec, "key": KEY, "private": private})
    with pytest.raises(ProgramError, match="at most 20000"):
        mesh.put({**spec, "key": KEY, "private": "x" * 20_001})


def test_a_link_where_a_key_goes_leads_nowhere(spec: dict[str, Any], tmp_path: Path) -> None:
    """The mesh's user may be there first: root, who sets the mesh up, is led to no other file."""
    other, user = tmp_path / "other", mesh.account(spec)
    other.write_text("as it was")
    mesh.make(spec)
    folder = tmp_path / ".ssh" / "trainbench"

    def make(path: str) -> None:
        Path(path).write_bytes((folder / "id_ed25519").read_bytes())
        Path(path).chmod(0o600)
        Path(path + ".pub").symlink_to(other)

    mesh.install(user, str(folder), make)
    assert other.read_text() == "as it was"
    assert (folder / "id_ed25519.pub").read_text().startswith("ssh-ed25519 ")


def test_a_key_is_its_type_and_what_begins_with_it() -> None:
    for kind in ("ssh-rsa", "ecdsa-sha2-nistp256", "sk-ssh-ed25519@openssh.com"):
        assert SshKey(key(kind)) == key(kind)


@pytest.mark.parametrize(
    ("before", "first", "after"),
    [
        ("", False, "B\nx\nE\n"),
        ("", True, "B\nx\nE\n"),
        ("a", False, "a\nB\nx\nE\n"),
        ("a\n", False, "a\nB\nx\nE\n"),
        ("a", True, "B\nx\nE\na"),
        ("a\nB\nold\nolder\nE\nb", False, "a\nB\nx\nE\nb"),
        ("a\nE\nB\nb\n", False, "a\nb\nB\nx\nE\n"),
    ],
)
def test_a_block_takes_its_own_place(before: str, first: bool, after: str) -> None:
    mark = "BEGIN"
    texts = [text.replace("B", mark).replace("E\n", "END\n") for text in (before, after)]
    assert with_block(texts[0], mark, "x", first) == texts[1]
    assert block(texts[1], mark) == "x"


def test_a_login_offers_every_key_exchange_and_the_quick_one_first() -> None:
    def offered(*words: str) -> list[str]:
        argv = ["ssh", "-F", "/dev/null", *words, "-G", "node2"]
        lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
        return next(line.split()[1].split(",") for line in lines if line.startswith("kexalg"))

    quick = offered("-o", mesh.QUICK_KEYS)
    assert quick[0] == "curve25519-sha256"
    assert set(quick) == set(offered())
