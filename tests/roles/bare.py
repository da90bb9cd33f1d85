"""What a node has, to say that it has the same again."""

from tests.cluster.node import Node


def packages(node: Node) -> dict[str, str]:
    fields = "${binary:Package}\t${db:Status-Abbrev} ${Version}\n"
    listed = node.exec(["dpkg-query", "-W", "-f", fields], check=True).stdout
    return dict(line.split("\t") for line in listed.splitlines())


def left_of_us(node: Node) -> str:
    """Files of ours that are on the node."""
    script = (
        "ls -d /var/lib/trainbench /etc/docker/daemon.json /usr/local/cuda-11.3; "
        "find /etc -name '*trainbench*' -not -name trainbench-node; true"
    )
    return str(node.exec(["sh", "-c", f"({script}) 2>/dev/null"]).stdout)
