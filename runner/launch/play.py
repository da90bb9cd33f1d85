"""Run one playbook through ansible-runner: the only module that imports it."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node.files import read_start
from node.printable import printable
from runner.base.paths import PLAYBOOKS, PROJECT, ansible_environment
from runner.launch.private import in_memory, private_folder
from runner.terms.cluster import LOST_CONTACT_S

MOST_READ = 16 << 20  # bytes of what Ansible printed, of which the last words are told

WORDS = 2_000  # letters of Ansible's, which may be a node's


@dataclass(frozen=True)
class Played:
    """How a play ended: ansible-runner's status and exit code, and Ansible's last words.

    `changed` are the hosts that say that a task changed something there.
    """

    status: str
    rc: int
    words: str
    changed: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether Ansible ended with exit code 0."""
        return self.rc == 0


def play(
    playbook: str,
    inventory: Path,
    *,
    hosts: Sequence[str],
    variables: Mapping[str, Any],
    private: Path,
    cancelled: Callable[[], bool],
    lost_contact_s: float = LOST_CONTACT_S,
) -> Played:
    """Run `playbooks/<playbook>` on `hosts`; `private` holds ansible-runner's own folders.

    `lost_contact_s` is how soon silence is to be noticed. The folder of a play that succeeded is
    removed. ansible-runner's `command` file would hold the whole environment, secrets included: it
    is written to memory alone.
    """
    with private_folder(private) as folder:
        with in_memory(folder / "artifacts" / "play" / "command"):
            played = _play(
                playbook,
                inventory,
                hosts,
                variables,
                folder,
                cancelled,
                ssh_options(lost_contact_s),
            )
        if played.ok:
            shutil.rmtree(folder, ignore_errors=True)
    return played


def _play(
    playbook: str,
    inventory: Path,
    hosts: Sequence[str],
    variables: Mapping[str, Any],
    folder: Path,
    cancelled: Callable[[], bool],
    ssh: str,
) -> Played:
    import ansible_runner  # 0.2 s: not for commands that run no play

    messages: list[str] = []

    def on_event(event: dict[str, Any]) -> bool:
        if event.get("event") in ("runner_on_failed", "runner_on_unreachable"):
            result = event.get("event_data", {}).get("res", {})
            host = event.get("event_data", {}).get("host", "")
            messages.append(f"{host}: {result.get('msg', 'failed')}")
        return True  # anything else drops the event and with it the statistics

    ran = ansible_runner.run(
        private_data_dir=str(folder),
        ident="play",
        project_dir=str(PROJECT),
        playbook=str(PLAYBOOKS / playbook),
        inventory=str(inventory.resolve()),
        limit=",".join(hosts),
        extravars=dict(variables),
        envvars={
            **ansible_environment(),
            "ANSIBLE_FORKS": str(max(len(hosts), 1)),
            "ANSIBLE_SSH_ARGS": ssh,
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(Path.home() / ".ansible" / "tb"),
            "ANSIBLE_HOST_KEY_CHECKING": "True",
        },
        settings={"pexpect_timeout": 1},
        quiet=True,
        event_handler=on_event,
        cancel_callback=cancelled,
    )
    message = messages[0] if messages else ""
    if ran.rc != 0 and not message:
        message = last_words(Path(ran.config.artifact_dir) / "stdout")
    rc = 1 if ran.rc is None else int(ran.rc)  # none: it was killed before it could say
    changed = sorted((ran.stats or {}).get("changed") or {})
    return Played(str(ran.status), rc, printable(message)[:WORDS], tuple(changed))


def ssh_options(lost_contact_s: float) -> str:
    """Return the options of ssh for nodes whose silence is to be noticed so soon.

    Connections are the play's own: their control sockets are not those of a setup.
    """
    alive_s = round(min(max(lost_contact_s / 6, 2), 5))
    connect_s = round(min(max(lost_contact_s / 3, 3), 10))
    return (
        f"-o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval={alive_s}"
        f" -o ServerAliveCountMax=2 -o ConnectTimeout={connect_s} -o BatchMode=yes"
    )


def last_words(path: Path) -> str:
    """Return the last of an output's lines that is an error, or else the last."""
    try:
        lines = (read_start(path, MOST_READ) or b"").decode("utf-8", "replace").splitlines()
    except OSError:
        return "Ansible said nothing"
    spoken = [line.strip() for line in lines if line.strip()]
    errors = [line for line in spoken if "ERROR" in line or "error" in line]
    return (errors or spoken or ["Ansible said nothing"])[-1]
