"""The lines that make a node know the others, and be known by them. Pure.

What other nodes said are their keys alone, each a `SshKey`; names and addresses are those of the
inventory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import List as ListOf
from typing import NamedTuple

from node.schema import Fields, List
from node.validated_text import Address, HostName, SshKey

MOST_KEYS = 16  # host keys of one node
MOST_ADDRESSES = 64  # of one node
MOST_NODES = 10_000


class Peer(NamedTuple):
    """A node of the mesh, as each of them is told of it."""

    name: HostName
    addresses: ListOf[Address]
    host_keys: ListOf[SshKey]


ADDRESSES = List(Address, most=MOST_ADDRESSES, least=1)
PEERS = List(
    Fields(
        {
            "name": HostName,
            "addresses": ADDRESSES,
            "host_keys": List(SshKey, most=MOST_KEYS, least=1),
        },
        make=Peer,
    ),
    most=MOST_NODES,
)


class Known(NamedTuple):
    """A node with the numbers that are behind its addresses, as sshd sees them come."""

    peer: Peer
    numbers: ListOf[str]

    @property
    def names(self) -> list[str]:
        """All names that the node is called by, in one order."""
        return list(dict.fromkeys([self.peer.name, *self.peer.addresses, *self.numbers]))


def authorized(nodes: Sequence[Known], key: SshKey, comment: str) -> str:
    """Return the line that lets the mesh's key in, from the nodes' addresses only."""
    numbers = dict.fromkeys(number for node in nodes for number in node.numbers)
    return 'from="%s" %s %s' % (",".join(numbers), key, comment)


def known_hosts(nodes: Sequence[Known], ports: Sequence[int]) -> str:
    """Return every node's host keys, by each name and port."""
    lines = ["# Written by TrainBench's role ssh_mesh, from the nodes' own key files."]
    for node in nodes:
        places = [
            name if port == 22 else "[%s]:%d" % (name, port)
            for port in ports
            for name in node.names
        ]
        lines += ["%s %s" % (",".join(places), key) for key in node.peer.host_keys]
    return "\n".join(lines)


def config(nodes: Sequence[Known], port: int, user: str, folder: str) -> str:
    """Return ssh's configuration for the nodes: where they are, and by whom and how."""
    lines = ["# Written by TrainBench's role ssh_mesh."]
    for node in nodes:
        lines += ["Host " + " ".join(node.names), "    HostName " + node.peer.addresses[0]]
    lines.append(" ".join(["Host", *(name for node in nodes for name in node.names)]))
    options = [
        "User " + user,
        "Port %d" % port,
        "IdentityFile %s/id_ed25519" % folder,
        "IdentitiesOnly yes",
        "StrictHostKeyChecking yes",
        "UserKnownHostsFile %s/known_hosts" % folder,
        "GlobalKnownHostsFile /dev/null",
        "UpdateHostKeys no",
    ]
    return "\n".join([*lines, *("    " + option for option in options)])


def closing(mark: str) -> str:
    """Return the line that ends the block which `mark` begins."""
    return mark.replace("BEGIN", "END", 1)


def block(text: str, mark: str) -> str:
    """Return the lines between our marks; empty without them."""
    lines = text.splitlines()
    if mark not in lines or closing(mark) not in lines:
        return ""
    return "\n".join(lines[lines.index(mark) + 1 : lines.index(closing(mark))])


def with_block(text: str, mark: str, inside: str, goes_first: bool) -> str:
    """Return the text with our block in its place; a new one stands first or last."""
    lines, new = text.split("\n"), [mark, inside, closing(mark)]
    begin = lines.index(mark) if mark in lines else -1
    end = lines.index(closing(mark)) if closing(mark) in lines else -1
    if 0 <= begin < end:
        lines[begin : end + 1] = new
        return "\n".join(lines)
    lines = [line for line in lines if line not in (mark, closing(mark))]
    if goes_first:
        return "\n".join([*new, *lines])
    if lines[-1] == "":
        lines.pop()
    return "\n".join([*lines, *new, ""])
