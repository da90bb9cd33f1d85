"""The engine of an inventory that names none: its hosts are reached by Ansible's connections."""

from dataclasses import dataclass

from runner.terms.engines.engine_settings import EngineSettings


@dataclass(frozen=True)
class Ssh(EngineSettings):
    """Runs on the hosts of the inventory."""

    name = "ssh"
    title = "ssh"
    launcher = "runner.launch.ssh.ssh_engine:SshEngine"
