"""One node's part of the mesh: what it has, its key, and whom it reaches.

    mesh:look       answers what this node is and has
    mesh:make       makes the key pair; answers its public half
    mesh:put        puts the private key of the spec's `private` there; answers the other half
    mesh:reach      connects to every node, and reads its own authorized_keys
    mesh:left       answers what of ours is on the node, which removal takes off

A private key comes on standard input, as all that a program is told, and goes to its file; it is on
no command line and in no output.
"""

from __future__ import annotations

import concurrent.futures
import glob
import ipaddress
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable
from typing import Any

from node.answer import ProgramError

AT_ONCE = 4  # connections; an sshd may drop some once 10 are not yet authenticated
CONNECT_S = 10


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


def place(user: pwd.struct_passwd, spec: dict[str, Any]) -> str:
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
    found = []
    for name in ("authorized_keys", "config"):
        try:
            with open(os.path.join(user.pw_dir, ".ssh", name), encoding="utf-8") as file:
                if mark in file.read().splitlines():
                    found.append(name)
        except FileNotFoundError:
            pass
    return found


def ours(user: pwd.struct_passwd, path: str, mode: int) -> bool:
    """Whether a file or folder is there, the user's, and of that mode."""
    try:
        state = os.stat(path)
    except FileNotFoundError:
        return False
    own = (state.st_uid, state.st_gid) == (user.pw_uid, user.pw_gid)
    return own and state.st_mode & 0o7777 == mode


def text(user: pwd.struct_passwd, path: str) -> str:
    """A file's text without blanks around it; empty where it is not there or open to others."""
    if not ours(user, path, 0o600):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip()


def block(user: pwd.struct_passwd, path: str, mark: str) -> str:
    """What stands between our marks in a file of the user's."""
    lines = text(user, path).splitlines()
    end = mark.replace("BEGIN", "END", 1)
    if mark not in lines or end not in lines:
        return ""
    return "\n".join(lines[lines.index(mark) + 1 : lines.index(end)])


def trust(user: pwd.struct_passwd, spec: dict[str, Any]) -> dict[str, str]:
    """What makes the node know the others, and be known by them."""
    folder = place(user, spec)
    home = os.path.dirname(folder)
    return {
        "authorized_keys": block(user, os.path.join(home, "authorized_keys"), spec["mark"]),
        "config": block(user, os.path.join(home, "config"), spec["mark"]),
        "known_hosts": text(user, os.path.join(folder, "known_hosts")),
        "hosts": text(user, os.path.join(folder, "config")),
        "let_in": text(user, os.path.join(folder, "authorized_keys")),
    }


def own_lines(user: pwd.struct_passwd, key: str) -> list[str]:
    """The lines of authorized_keys that hold the key."""
    try:
        with open(os.path.join(user.pw_dir, ".ssh", "authorized_keys"), encoding="utf-8") as file:
            return [line.strip() for line in file if key in line and not line.startswith("#")]
    except FileNotFoundError:
        return []


def numbers(names: list[str]) -> list[str]:
    """The addresses behind names, as sshd will see them come."""
    found = []
    for name in names:
        try:
            answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise MeshError(f"{name}: {error}; set ssh_mesh_addresses") from None
        here = {str(answer[4][0]).partition("%")[0] for answer in answers}
        far = sorted(each for each in here if not ipaddress.ip_address(each).is_loopback)
        if not far:
            raise MeshError(f"{name} is only {', '.join(here)} here; set ssh_mesh_addresses")
        found += [each for each in far if each not in found]
    return found


def left(spec: dict[str, Any]) -> dict[str, Any]:
    """What of ours is here, and whose: all that removal needs, of a node without an sshd too."""
    user = account(spec)
    return {
        "user": user.pw_name,
        "group": user.pw_gid,
        "place": place(user, spec),
        "marked": marked(user, spec["mark"]),
    }


def look(spec: dict[str, Any]) -> dict[str, Any]:
    """What the other nodes must know of this one."""
    for program in ("ssh", "ssh-keygen"):
        if shutil.which(program) is None:
            raise MeshError(f"{program} is not here; install the package openssh-client")
    user = account(spec)
    folder = place(user, spec)
    keys = []
    for path in sorted(glob.glob(spec["host_keys"])):
        with open(path, encoding="utf-8") as file:
            keys.append(" ".join(file.read().split()[:2]))
    if not keys:
        raise MeshError(f"no file is {spec['host_keys']}; set ssh_mesh_host_keys to sshd's keys")
    return {
        **left(spec),
        "name": spec["node"],
        "home": user.pw_dir,
        "hostname": socket.gethostname(),
        "addresses": spec["addresses"],
        "from": numbers(spec["addresses"]),
        "host_keys": keys,
        "folders": all(
            ours(user, path, 0o700)
            for path in (place(user, spec), os.path.dirname(place(user, spec)))
        ),
        "trust": trust(user, spec),
        "key": public_half(user, os.path.join(folder, "id_ed25519")),
    }


def install(user: pwd.struct_passwd, folder: str, make: Callable[[str], None]) -> str:
    """Let ``make(path)`` write a private key, and put it and its public half in place."""
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as work:
        os.chown(work, user.pw_uid, user.pw_gid)
        path = os.path.join(work, "id_ed25519")
        make(path)
        key = public_half(user, path)
        if not key:
            raise MeshError("what came is not a private key without a passphrase")
        comment = os.path.basename(folder)
        descriptor = os.open(path + ".pub", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{key} {comment}\n")
        os.chown(path + ".pub", user.pw_uid, user.pw_gid)
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

    return {"key": install(user, place(user, spec), generate)}


def put(spec: dict[str, Any]) -> dict[str, Any]:
    """The cluster's key pair, from the private half."""
    user = account(spec)

    def write(path: str) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(spec["private"])
        os.chown(path, user.pw_uid, user.pw_gid)

    return {"key": install(user, place(user, spec), write)}


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
    """What stands in the way of a connection; empty if nothing does."""
    # ControlPath: a connection that is open already would prove nothing
    options = ["BatchMode=yes", "StrictHostKeyChecking=yes", "ControlPath=none"]
    options += [f"ConnectTimeout={CONNECT_S}"]
    words = [word for option in options for word in ("-o", option)]
    try:
        answer = run(["ssh", *words, "-p", str(port), node, "true"], user, timeout=3 * CONNECT_S)
    except subprocess.TimeoutExpired:
        return f"nothing heard for {3 * CONNECT_S} s"
    if answer.returncode == 0:
        return ""
    lines = [line.strip() for line in answer.stderr.splitlines() if line.strip(" @\r")]
    return lines[-1] if lines else f"ssh ended with {answer.returncode}"


def reach(spec: dict[str, Any]) -> dict[str, Any]:
    """Every node from here; each node begins with its successor, so that none is asked by all."""
    user = account(spec)
    me, nodes = spec["node"], spec["nodes"]
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
        for (name, port), answer in zip(pairs, answers)  # noqa: B905  # Python 3.8 has no strict
        if answer
    ]
    if not public_half(user, os.path.join(place(user, spec), "id_ed25519")):
        faults.append(f"{me}: {place(user, spec)}/id_ed25519 is missing, damaged or open to others")
    if spec["authorized"]:
        key = " ".join(spec["authorized"].split()[1:3])
        lines = own_lines(user, key)
        if spec["authorized"] not in lines:
            faults.append(f"authorized_keys of {me} lacks the mesh's line")
        for line in lines:
            if line != spec["authorized"]:
                faults.append(
                    f"authorized_keys of {me} has another line with the mesh's key, which setup "
                    f"leaves alone; remove it: {line[:200]}"
                )
    if faults:
        raise MeshError("\n".join(faults))
    return {"reached": [f"{name}:{port}" for name, port in pairs]}
