"""Where things lie: in this checkout, and on a node."""

import os
import shutil
import sys
from pathlib import Path, PurePosixPath

from node.supervisor.names import HOSTNAME
from runner.base.errors import UserError

PROJECT = Path(__file__).resolve().parents[2]
PLAYBOOKS = PROJECT / "playbooks"
TEMPLATES = PROJECT / "templates"
DEFAULT_INVENTORY = PROJECT / "inventory" / "local"
DEFAULT_RUNS = PROJECT / "runs"
BASE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # of a node's processes


def node_root(cluster_root: str) -> PurePosixPath:
    """Return a node's root folder. A relative one lies in this checkout (a local connection only).

    playbooks/group_vars/all.yml has the same rule as `node_root`; a test compares them.
    """
    return PurePosixPath(PROJECT.as_posix()) / cluster_root


def system_home(root: PurePosixPath, system: str, pin: str) -> PurePosixPath:
    """Return `<root>/systems/<system>/<pin>`, which holds src/, env/ and installed.json."""
    return root / "systems" / system / pin


def dataset_home(root: PurePosixPath, dataset: str) -> PurePosixPath:
    """Return `<root>/datasets/<dataset>`, which holds dataset.json and what it lists."""
    return root / "datasets" / dataset


def env_file(root: PurePosixPath, shared: bool) -> PurePosixPath:
    """Return what the node is, as roles/verify leaves it there; below a root that nodes share, each
    has its own, whose name the node itself fills in.
    """
    return root / (f"env-{HOSTNAME}.json" if shared else "env.json")


def search_path() -> str:
    """Return PATH with this Python's own folder first: the Ansible beside it is the right one."""
    return f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"


def program(name: str) -> str:
    """Return the path of one of Ansible's programs. Raises UserError where it is not installed."""
    path = shutil.which(name, path=search_path())
    if path is None:
        raise UserError(not_installed(name))
    return path


def not_installed(what: str) -> str:
    """Return a sentence: this Python lacks `what`, and what brings it."""
    activate = PROJECT / ".venv" / "bin" / "activate"
    if activate.exists():
        cure = f"activate TrainBench's environment: source {activate}"
    elif (PROJECT / "Makefile").exists():
        cure = (
            f"`make -C {PROJECT} venv` makes TrainBench's environment, and then"
            f" `source {activate}` activates it"
        )
    else:
        cure = "install TrainBench again, with all that it needs: pipx reinstall trainbench"
    return f"{what} is not installed for {sys.executable}; {cure}"
