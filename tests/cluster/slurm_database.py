"""slurmdbd and its database in the login node, for sacct as a site with accounting has it."""

import subprocess
from pathlib import Path
from typing import Any

from .node import ENVIRONMENT, Node
from .slurm_files import START
from .system import ClusterError, wait_for

PACKAGES = ("mariadb-server", "slurmdbd", "slurm-wlm-mysql-plugin")
CONF = """\
AuthType=auth/munge
DbdHost=node1
SlurmUser=root
StorageType=accounting_storage/mysql
StorageUser=root
LogFile=/var/log/slurmdbd.log
PidFile=/run/slurmdbd.pid
"""
INSTALL_S = 300
READY_S = 30.0


def start_database(node: Node) -> None:
    """Install mariadb and slurmdbd in the node, from the network, and start them."""
    apt = ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *PACKAGES]
    environment = {**ENVIRONMENT, "DEBIAN_FRONTEND": "noninteractive"}
    checked(node.exec(apt, timeout=INSTALL_S, env=environment))
    conf = Path(f"/proc/{node.pid}/root/etc/slurm/slurmdbd.conf")
    conf.touch(mode=0o600)
    conf.write_text(CONF)
    checked(node.exec(["install", "-d", "-o", "mysql", "/run/mysqld"]))
    daemon = ["setsid", "--fork", "mariadbd", "--user=mysql", "--skip-networking"]
    checked(node.exec(daemon, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    if not wait_for(lambda: node.exec(["mariadb-admin", "ping"]).returncode == 0, READY_S, 0.2):
        raise ClusterError("mariadbd did not start: see /var/log/mysql in the login node")
    checked(node.exec([*START, "munged", "slurmdbd"]))
    answers = ["sacctmgr", "-n", "show", "cluster"]
    if not wait_for(lambda: node.exec(answers).returncode == 0, READY_S, 0.2):
        raise ClusterError("slurmdbd did not start: see /var/log/slurmdbd.log in the login node")


def checked(done: subprocess.CompletedProcess[Any]) -> subprocess.CompletedProcess[Any]:
    """What ended well; raises ClusterError with the command's own words where it did not."""
    if done.returncode != 0:
        words = (done.stderr or done.stdout or "").strip()
        raise ClusterError(f"{' '.join(done.args)[-200:]}: {words or done.returncode}")
    return done
