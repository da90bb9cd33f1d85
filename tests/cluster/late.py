"""A shared folder that shows a node's work late, as network file systems do.

bindfs lays the folder over itself, and the kernel keeps what it was told by FUSE for so many
seconds: a file that was not there stays so, one that is gone seems there.
"""

from pathlib import Path

from .node import ENVIRONMENT, Node
from .system import ClusterError

INSTALL_S = 120


def show_late(node: Node, folder: Path, seconds: int) -> None:
    """Show the folder's names and sizes late in a node; bindfs comes from the network."""
    apt = ["apt-get", "install", "-qq", "-y", "--no-install-recommends", "bindfs"]
    environment = {**ENVIRONMENT, "DEBIAN_FRONTEND": "noninteractive"}
    kept = ",".join(f"{what}_timeout={seconds}" for what in ("attr", "entry", "negative"))
    for argv in (
        [] if node.exec(["which", "bindfs"]).returncode == 0 else apt,
        ["mknod", "-m", "666", "/dev/fuse", "c", "10", "229"] if not _fuse(node) else [],
        ["bindfs", "-o", f"{kept},nonempty,allow_other", str(folder), str(folder)],
    ):
        done = node.exec(argv, timeout=INSTALL_S, env=environment) if argv else None
        if done is not None and done.returncode != 0:
            raise ClusterError(f"{node.hostname}: {argv[0]}: {done.stderr.strip()}")


def show_at_once(node: Node, folder: Path) -> None:
    """Undo it; what has a file open there keeps it."""
    node.exec(["umount", "--lazy", str(folder)])


def _fuse(node: Node) -> bool:
    return Path(f"/proc/{node.pid}/root/dev/fuse").exists()
