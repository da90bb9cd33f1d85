"""The files a cluster is used by: keys, known hosts, ssh configuration, Ansible inventory."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from .system import RefusedError, base_python, run

# The default is for control machines that are busy; a test that cuts a link waits less for it.
SOON_LOST = {"cluster_lost_contact_s": 10}
# Hidden in a node by its own folders: an interpreter there would not be found.
OWN_FOLDERS = ("/tmp/", "/var/tmp/", "/run/", "/dev/", "/proc/", "/sys/")

SSHD_CONFIG = """\
Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
PidFile /run/sshd.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
# the first file lets the test cluster in, whatever a role does to the second
AuthorizedKeysFile /etc/ssh/authorized_keys .ssh/authorized_keys
# no PAM: sessions do not depend on how the machine's PAM is set up
UsePAM no
UseDNS no
PrintMotd no
MaxStartups 100:30:200
MaxSessions 100
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp
"""


def make_key(path: Path, comment: str) -> str:
    """Make an ed25519 key without a passphrase (mode 0600); returns the public line."""
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])
    return path.with_suffix(".pub").read_text()


def ssh_options(directory: Path) -> list[str]:
    """What every connection needs: the cluster's own host keys, checked, and nothing of ours."""
    return [
        "-F", "/dev/null",
        "-o", f"UserKnownHostsFile={directory / 'known_hosts'}",
        "-o", "GlobalKnownHostsFile=/dev/null",
        "-o", "StrictHostKeyChecking=yes",
        "-o", "IdentitiesOnly=yes",
    ]  # fmt: skip


def write_ssh_config(directory: Path, addresses: Mapping[str, str]) -> None:
    """``ssh -F <directory>/ssh_config node1``."""
    blocks = [f"Host {host}\n    HostName {address}\n" for host, address in addresses.items()]
    common = f"""Host *
    User root
    IdentityFile {directory / "id_ed25519"}
    IdentitiesOnly yes
    UserKnownHostsFile {directory / "known_hosts"}
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    ConnectTimeout 10
"""
    (directory / "ssh_config").write_text("".join(blocks) + common)


def interpreter() -> str:
    """The Python that nodes run modules with; raises RefusedError when nodes cannot see it."""
    python = base_python()
    if python.startswith(OWN_FOLDERS):
        raise RefusedError(
            f"test nodes cannot see {python}: run this with a Python that lives outside "
            + ", ".join(folder.rstrip("/") for folder in OWN_FOLDERS)
        )
    return python


def write_inventory(
    folder: Path,
    directory: Path,
    addresses: Mapping[str, str],
    control_paths: Path,
    variables: Mapping[str, Any],
) -> Path:
    """Write ``hosts.yml`` and ``group_vars/all/variables.yml`` into ``folder``; returns it."""
    connection = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(directory / "id_ed25519"),
        "ansible_ssh_common_args": shlex.join(ssh_options(directory)),
        # ansible-runner and many an ansible.cfg turn it off; a variable wins over both
        "ansible_host_key_checking": True,
        "ansible_python_interpreter": interpreter(),
    }
    hosts = {
        host: {"ansible_host": address, "ansible_control_path_dir": str(control_paths / host)}
        for host, address in addresses.items()
    }
    return _write(folder, {"hosts": hosts, "vars": connection}, {**SOON_LOST, **variables})


def write_local_inventory(folder: Path, host: str, variables: Mapping[str, Any]) -> Path:
    """Write an inventory of one host that is the machine which reads it; returns ``folder``."""
    connection = {"ansible_connection": "local", "ansible_python_interpreter": interpreter()}
    return _write(folder, {"hosts": {host: {}}, "vars": connection}, variables)


def _write(folder: Path, group: Mapping[str, Any], variables: Mapping[str, Any]) -> Path:
    group_vars = folder / "group_vars" / "all"
    group_vars.mkdir(parents=True, exist_ok=True)
    _write_yaml(folder / "hosts.yml", {"all": {"children": {"nodes": group}}})
    _write_yaml(group_vars / "variables.yml", dict(variables))
    return folder


def _write_yaml(path: Path, value: object) -> None:
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    path.write_text(f"# written by tests.cluster\n---\n{text}")


def read_variables(path: Path | None) -> dict[str, Any]:
    """A file's mapping, empty without a file; raises RefusedError where it is none."""
    try:
        variables = yaml.safe_load(path.read_text()) if path else {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise RefusedError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
    if not isinstance(variables, dict):
        raise RefusedError(f"{path} is no mapping of variables")
    return variables


def parse_variables(words: Sequence[str]) -> dict[str, Any]:
    """``key=value`` words with YAML values; raises RefusedError on anything else."""
    variables: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.isidentifier():
            raise RefusedError(f"--var {word}: write it as key=value, with a name Ansible takes")
        try:
            variables[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            line = str(error).replace(os.linesep, " ")
            raise RefusedError(f"--var {key}: the value is not YAML: {line}") from None
    return variables
