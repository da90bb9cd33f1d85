"""One node's part of the mesh: what it has, its key, and whom it reaches.

    mesh:look       answers what this node is and has
    mesh:make       makes the key pair; answers its public half
    mesh:put        puts the private key of the spec's `private` there; answers the other half
    mesh:trust      lets the mesh's `key` in, and writes down the `nodes`; answers if it changed
    mesh:reach      connects to every node, and reads its own authorized_keys
    mesh:left       answers what removal has to remove from the node

A private key comes on standard input, as all that a program is told, and goes to its file; it is on
no command line and in no output.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import glob
import ipaddress
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from node import mesh_lines
from node.answer import ProgramError
from node.files import write_bytes, write_text
from node.mesh_lines import MOST_KEYS, PEERS, Known
from node.schema import Text
from node.validated_text import SshKey

PRIVATE = Text(most=20_000, lines=True)
MOST_LETTERS = 1_000_000  # and bytes, of a file that a user has in ~/.ssh
AT_ONCE = 4  # connections; an sshd may drop some once 10 are not yet authenticated
CONNECT_S = 10
# First of what both sides know. OpenSSH's own first choice withstands quantum computers, and makes
# two thirds of a login's work; this login carries nothing that would be worth keeping for them.
QUICK_KEYS = "KexAlgorithms=^curve25519-sha256"


class MeshError(ProgramError):
    """What is wrong on this node, with the cure."""


def account(spec: dict[str, Any]) -> pwd.struct_passwd:
    """The user of the mesh; without a name the one who runs this."""
    if not spec["user"]:
        return pwd.getpwuid(os.getuid())
    try:
        user = pwd.getpwnam(spec["user"])
    except KeyError:
        raise MeshError(f"there is no user {spec['user']}; see ssh_mesh_user") from None
    if os.getuid() not in (0, user.pw_uid):
        raise MeshError(
            f"connected as {pwd.getpwuid(os.getuid()).pw_name}, who cannot set up {spec['user']}; "
            "connect as root or as that user, or set ansible_become"
        )
    return user


def run(
    argv: list[str], user: pwd.struct_passwd, timeout: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program as the mesh's user."""

    def become() -> None:
        os.seteuid(0)  # for good, where this acts as the user for a while
        os.initgroups(user.pw_name, user.pw_gid)
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)

    environment = {"PATH": os.environ["PATH"], "HOME": user.pw_dir, "LC_ALL": "C"}
    return subprocess.run(
        argv,
        capture_output=True,
        text=True,
        env=environment,
        stdin=subprocess.DEVNULL,
        preexec_fn=become if os.getuid() == 0 and user.pw_uid != 0 else None,
        timeout=timeout,
    )


def mesh_folder(user: pwd.struct_passwd, spec: dict[str, Any]) -> str:
    """Our folder on this node, ours alone."""
    return os.path.join(user.pw_dir, ".ssh", spec["name"])


def public_half(user: pwd.struct_passwd, path: str) -> str:
    """Type and key of a private key that is whole and closed to others; empty if it is not."""
    try:
        state = os.stat(path)
    except OSError:
        return ""
    if state.st_mode & 0o077 or state.st_uid != user.pw_uid:
        return ""
    answer = run(["ssh-keygen", "-y", "-P", "", "-f", path], user)
    return " ".join(answer.stdout.split()[:2]) if answer.returncode == 0 else ""


def marked(user: pwd.struct_passwd, mark: str) -> list[str]:
    """Which of the user's files have our block."""
    return [
        name
        for name in ("authorized_keys", "config")
        if mark in foreign(user, os.path.join(user.pw_dir, ".ssh", name)).splitlines()
    ]


def ours(user: pwd.struct_passwd, path: str, mode: int) -> bool:
    """Whether a file or folder is there, the user's, and of that mode."""
    try:
        state = os.stat(path)
    except FileNotFoundError:
        return False
    is_owned = (state.st_uid, state.st_gid) == (user.pw_uid, user.pw_gid)
    return is_owned and state.st_mode & 0o7777 == mode


def text(user: pwd.struct_passwd, path: str) -> str:
    """A file's text; empty where it is not there or open to others."""
    return foreign(user, path) if ours(user, path, 0o600) else ""


@contextlib.contextmanager
def acting_as(user: pwd.struct_passwd) -> Iterator[None]:
    """Change files with the user's rights: a user's link cannot lead to others' files."""
    if os.geteuid() != 0 or user.pw_uid == 0:
        yield
        return
    os.setegid(user.pw_gid)
    os.seteuid(user.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def own_folder(user: pwd.struct_passwd, spec: dict[str, Any]) -> str:
    """Make our folder, the user's and closed to others, as the one above it."""
    folder = mesh_folder(user, spec)
    with acting_as(user):
        for path in (os.path.dirname(folder), folder):
            os.makedirs(path, 0o700, exist_ok=True)
            if not ours(user, path, 0o700):
                os.chown(path, -1, user.pw_gid)
                os.chmod(path, 0o700)
    return folder


def own_lines(user: pwd.struct_passwd, key: str) -> list[str]:
    """The lines of authorized_keys that hold the key."""
    lines = foreign(user, os.path.join(user.pw_dir, ".ssh", "authorized_keys")).split("\n")
    return [line.strip() for line in lines if key in line and not line.startswith("#")]


def numbers(names: list[str]) -> list[str]:
    """The addresses behind names, as sshd will see them come."""
    addresses = []
    for name in names:
        try:
            answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise MeshError(f"{name}: {error}; set ssh_mesh_addresses") from None
        here = {str(answer[4][0]).partition("%")[0] for answer in answers}
        far = sorted(address for address in here if not ipaddress.ip_address(address).is_loopback)
        if not far:
            raise MeshError(f"{name} is only {', '.join(here)} here; set ssh_mesh_addresses")
        addresses += [address for address in far if address not in addresses]
    return addresses


def left(spec: dict[str, Any]) -> dict[str, Any]:
    """Our files here, and whose: all that removal needs, of a node without an sshd too."""
    user = account(spec)
    return {
        "user": user.pw_name,
        "group": user.pw_gid,
        "place": mesh_folder(user, spec),
        "marked": marked(user, spec["mark"]),
    }


def look(spec: dict[str, Any]) -> dict[str, Any]:
    """What the other nodes must know of this one."""
    for program in ("ssh", "ssh-keygen"):
        if shutil.which(program) is None:
            raise MeshError(f"{program} is not here; install the package openssh-client")
    user = account(spec)
    folder = mesh_folder(user, spec)
    keys = []
    for path in sorted(glob.glob(spec["host_keys"]))[:MOST_KEYS]:
        with open(path, encoding="utf-8") as file:
            keys.append(SshKey(" ".join(file.read().split()[:2]), path))
    if not keys:
        raise MeshError(
            f"no file matches {spec['host_keys']}; set ssh_mesh_host_keys to sshd's keys"
        )
    key = public_half(user, os.path.join(folder, "id_ed25519"))
    return {**left(spec), "host_keys": keys, "key": key}


def install(
    user: pwd.struct_passwd, folder: str, make: Callable[[str], None], public_key: str = ""
) -> str:
    """Let ``make(path)`` write a private key, and put it and its public half in place.

    ``public_key`` is the other half, where it is known.
    """
    with acting_as(user), tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as work:
        path = os.path.join(work, "id_ed25519")
        make(path)
        key = public_half(user, path)
        if not key:
            raise MeshError("the private key that was sent is damaged or has a passphrase")
        if public_key and key != public_key:
            raise MeshError("what came is not the private key that the other nodes let in")
        write_text(path + ".pub", f"{key} {os.path.basename(folder)}\n", mode=0o644)
        for name in ("id_ed25519.pub", "id_ed25519"):
            os.replace(os.path.join(work, name), os.path.join(folder, name))
    return key


def make(spec: dict[str, Any]) -> dict[str, Any]:
    """A new key pair of the cluster."""
    user = account(spec)

    def generate(path: str) -> None:
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", spec["name"], "-f", path]
        answer = run(argv, user)
        if answer.returncode != 0:
            raise MeshError(f"ssh-keygen: {answer.stderr.strip()}")

    return {"key": install(user, own_folder(user, spec), generate)}


def put(spec: dict[str, Any]) -> dict[str, Any]:
    """The cluster's key pair, from the private half."""
    user = account(spec)
    private, key = PRIVATE.check(spec["private"], "the private key"), SshKey(spec["key"], "key")
    write = functools.partial(write_text, text=private, mode=0o600)
    return {"key": install(user, own_folder(user, spec), write, key)}


def checked_nodes(spec: dict[str, Any]) -> list[Known]:
    """The nodes of the spec, checked, with the numbers behind their addresses."""
    return [Known(peer, numbers(peer.addresses)) for peer in PEERS.check(spec["nodes"], "nodes")]


def trust(spec: dict[str, Any]) -> dict[str, Any]:
    """Let the cluster's key in, from its addresses only, and know every node's host keys."""
    user, nodes = account(spec), checked_nodes(spec)
    line = mesh_lines.authorized(nodes, SshKey(spec["key"], "key"), spec["name"])
    folder = mesh_folder(user, spec)
    ports = [int(port) for port in spec["ports"]]
    files = {
        "known_hosts": mesh_lines.known_hosts(nodes, ports),
        "config": mesh_lines.config(nodes, ports[0], user.pw_name, folder),
        "authorized_keys": line,  # for an sshd in a container
    }
    # At the top: further down an Include would hold for the Host block above it only.
    blocks = {"authorized_keys": (line, False), "config": (f"Include {folder}/config", True)}
    changes = {
        os.path.join(folder, name): line + "\n"
        for name, line in files.items()
        if text(user, os.path.join(folder, name)).strip() != line
    }
    for name, (block, goes_first) in blocks.items():
        path = os.path.join(os.path.dirname(folder), name)
        if mesh_lines.block(text(user, path), spec["mark"]) != block:
            changes[path] = mesh_lines.with_block(
                foreign(user, path), spec["mark"], block, goes_first
            )
    if changes and not spec["check"]:
        own_folder(user, spec)
        with acting_as(user):
            for path, content in changes.items():
                content_bytes = content.encode("utf-8", "surrogateescape")
                write_bytes(os.path.realpath(path), content_bytes, mode=0o600)
    return {"changed": bool(changes)}


def foreign(user: pwd.struct_passwd, path: str) -> str:
    """What a file has that the user may read, each byte of it; empty without one."""
    try:
        with acting_as(user), open(path, "rb") as file:
            content = file.read(MOST_LETTERS + 1).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""
    if len(content) > MOST_LETTERS:
        raise MeshError(f"{path} has more than {MOST_LETTERS} letters")
    return content


def listens(user: pwd.struct_passwd, node: str, port: int) -> bool:
    """Whether something answers there at all, at the address that ssh takes for the node."""
    lines = run(["ssh", "-G", node], user).stdout.splitlines()
    address = next((line.partition(" ")[2] for line in lines if line.startswith("hostname ")), node)
    try:
        socket.create_connection((address, port), CONNECT_S).close()
    except OSError:
        return False
    return True


def connect(user: pwd.struct_passwd, node: str, port: int) -> str:
    """Why a connection fails; empty if it works."""
    # ControlPath: a connection that is open already would prove nothing
    options = ["BatchMode=yes", "StrictHostKeyChecking=yes", "ControlPath=none", QUICK_KEYS]
    options += [f"ConnectTimeout={CONNECT_S}"]
    options_given = [word for option in options for word in ("-o", option)]
    try:
        answer = run(
            ["ssh", *options_given, "-p", str(port), node, "true"], user, timeout=3 * CONNECT_S
        )
    except subprocess.TimeoutExpired:
        return f"nothing heard for {3 * CONNECT_S} s"
    if answer.returncode == 0:
        return ""
    lines = [line.strip() for line in answer.stderr.splitlines() if line.strip(" @\r")]
    return lines[-1] if lines else f"ssh ended with {answer.returncode}"


def reach(spec: dict[str, Any]) -> dict[str, Any]:
    """Every node from here; each node begins with its successor, so that none is asked by all."""
    user = account(spec)
    me, nodes = spec["node"], spec["names"]
    start = nodes.index(me) + 1
    pairs = []
    for node in nodes[start:] + nodes[:start]:
        for port in spec["ports"]:
            # the first port is sshd's; the others are those of containers that may not run now
            if port == spec["ports"][0] or listens(user, node, port):
                pairs.append((node, port))
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda pair: connect(user, *pair), pairs))
    faults = [
        f"{me} cannot reach {name}" + (f" on port {port}: " if port != 22 else ": ") + answer
        for (name, port), answer in zip(pairs, answers)  # Python 3.8 has no strict
        if answer
    ]
    if not public_half(user, os.path.join(mesh_folder(user, spec), "id_ed25519")):
        faults.append(
            f"{me}: {mesh_folder(user, spec)}/id_ed25519 is missing, damaged or open to others"
        )
    if spec["key"]:
        key = SshKey(spec["key"], "key")
        expected_line, lines = (
            mesh_lines.authorized(checked_nodes(spec), key, spec["name"]),
            own_lines(user, key),
        )
        if expected_line not in lines:
            faults.append(f"authorized_keys of {me} lacks the mesh's line")
        for line in lines:
            if line != expected_line:
                faults.append(
                    f"authorized_keys of {me} has another line with the mesh's key, which setup "
                    f"leaves alone; remove it: {line[:200]}"
                )
    if faults:
        raise MeshError("\n".join(faults))
    return {"reached": [f"{name}:{port}" for name, port in pairs]}
