"""What cluster_env keeps secret, for sbatch's and srun's environment: in memory, in no file."""

import os
from pathlib import Path

from node.parsing import parse
from node.schema import MOST_LETTERS, Fields, Mapped, Text, Words
from node.validated_text import VariableName
from runner.base.errors import UserError
from runner.folder import names
from runner.launch.play import play
from runner.terms.cluster import Cluster

MOST_VALUE = 100_000  # letters; the kernel takes no longer variable than 128 KiB
REVEALED = Fields(
    {
        "values": Mapped(VariableName, Text(most=MOST_LETTERS, lines=True)),
        "refused": Mapped(VariableName, Words()),
    }
)


def reveal(cluster: Cluster, runs: Path) -> dict[str, str]:
    """Return the secret variables' values, which a vault or a lookup of the inventory may hold.

    Ansible resolves them in a process of its own and writes them into this one's memory. Raises
    UserError that names those that cannot be read.
    """
    if not cluster.secrets:
        return {}
    memory = os.memfd_create("secrets")
    with os.fdopen(memory, "rb") as stream:
        played = play(
            "reveal.yml",
            cluster.path,
            hosts=["nodes"],
            variables={
                "launch_file": f"/proc/{os.getpid()}/fd/{memory}",
                "launch_names": list(cluster.secrets),
            },
            private=runs / names.ANSIBLE,
            cancelled=lambda: False,
        )
        content = stream.read()
    if not played.ok:
        raise UserError(f"secrets of cluster_env cannot be read: {played.words}")
    revealed = parse(content, REVEALED, "cluster_env")
    values: dict[str, str] = revealed["values"]
    refused = list(revealed["refused"].values())
    refused += [
        f"{name} holds a NUL character or over {MOST_VALUE} letters, which no variable can"
        for name, value in values.items()
        if "\0" in value or len(value) > MOST_VALUE
    ]
    if refused:
        raise UserError(
            f"{'; '.join(refused)}; see its vault or lookup in cluster_env of the inventory"
            f" {cluster.name}"
        )
    return values
