"""Where things lie: what is shipped, a person's own folder, and on a node."""

import os
import shutil
import sys
from pathlib import Path, PurePosixPath

from node.supervisor.names import HOSTNAME
from runner.base.errors import UserError

# What is shipped: a checkout, or what a wheel put into site-packages, where nothing is written.
PROJECT = Path(__file__).resolve().parents[2]
IS_CHECKOUT = (PROJECT / "pyproject.toml").exists()
# Of runs/, inventories and a relative cluster_root: a checkout, or else where a person stands. What
# is started for her, Ansible, is told: playbooks/group_vars/all.yml has the same as `own_folder`.
FOLDER_VARIABLE = "TRAINBENCH_FOLDER"
FOLDER = Path(os.environ.get(FOLDER_VARIABLE) or (PROJECT if IS_CHECKOUT else Path.cwd()))
PLAYBOOKS = PROJECT / "playbooks"
TEMPLATES = PROJECT / "templates"
DEFAULT_RUNS = FOLDER / "runs"
BASE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # of a node's processes


def existing_path(word: str) -> Path:
    """Return a path of the command line, which may name what is shipped: `inventory/local`."""
    path = Path(word)
    places = (folder / path for folder in (Path(), FOLDER, PROJECT))
    return next((candidate for candidate in places if candidate.exists()), path)


DEFAULT_INVENTORY = existing_path("inventory/local")


def node_root(cluster_root: str) -> PurePosixPath:
    """Return a node's root folder. A relative one is in the own folder (a local connection only).

    playbooks/group_vars/all.yml has the same rule as `node_root`; a test compares them.
    """
    return PurePosixPath(FOLDER.as_posix()) / cluster_root


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


def ansible_environment() -> dict[str, str]:
    """Return what Ansible's programs are told: PATH, their configuration, the own folder, and where
    Python finds what is shipped, of which a wheel tells no other program.
    """
    python_path = os.environ.get("PYTHONPATH", "")
    environment = {} if IS_CHECKOUT else {"PYTHONPATH": f"{PROJECT}:{python_path}".rstrip(":")}
    return {
        **environment,
        "PATH": search_path(),
        "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
        FOLDER_VARIABLE: str(FOLDER),
        **_locale(),
    }


def _locale() -> dict[str, str]:
    """Return a locale of UTF-8 where the user has another one (LC_ALL=C), which Ansible refuses."""
    variables = (os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    locale = next(filter(None, variables), "")
    is_utf8 = locale.upper().replace("-", "").endswith("UTF8")
    return {} if is_utf8 else {"LC_ALL": "C.UTF-8"}


def program(name: str) -> str:
    """Return the path of one of Ansible's programs. Raises UserError where it is not installed."""
    path = shutil.which(name, path=search_path())
    if path is None:
        raise UserError(not_installed(name))
    return path


def not_installed(package: str) -> str:
    """Return a sentence: this Python lacks `package`, and what brings it."""
    activate = PROJECT / ".venv" / "bin" / "activate"
    if activate.exists():
        cure = f"activate TrainBench's environment: source {activate}"
    elif IS_CHECKOUT:
        cure = (
            f"`make -C {PROJECT} venv` makes TrainBench's environment, and then"
            f" `source {activate}` activates it"
        )
    else:
        cure = "install TrainBench again, with all that it needs: pipx reinstall trainbench-cluster"
    return f"{package} is not installed for {sys.executable}; {cure}"
