"""What ssh says of a node that it does not reach: why, and what fixes it. Pure.

Setup's validate, bench and init say it in these words, of one node or of many at once.
"""

import re
from collections.abc import Mapping, Sequence

from node.printable import printable

NEW_KEY, OTHER_KEY, NO_KEY, NO_NAME = "new host key", "other host key", "no key", "no name"
# Instead of Ansible's words for it, which name no reason (its ssh.py, `_send_initial_data`).
ENDED_EARLY = "the connection ended before anything was sent"
_SAYS: tuple[tuple[str, str, str], ...] = (
    (
        OTHER_KEY,
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "Host key verification failed (another key is recorded here than the one that answers)",
    ),
    (
        NEW_KEY,
        r"Host key verification failed|host key is known for",
        "Host key verification failed (the key is not recorded here)",
    ),
    (NO_KEY, r"[^\s:]*: Permission denied \([^)]*\)|Permission denied|Too many auth", ""),
    (NO_NAME, r"[^:]*: Could not resolve hostname|Name or service not known", ""),
)


def silence(message: str) -> str:
    """Say why a node does not answer, without Ansible's words around it."""
    kind = kind_of(message)
    for name, _, why in _SAYS:
        if name == kind and why:
            return why
    reason = re.sub(r"^.*?(?:via ssh|over ssh): ", "", printable(message))
    if re.search(r"\bData could not be sent to remote host \S+ Make sure", reason):
        return ENDED_EARLY
    return reason.rstrip(". ") or "no answer"


def kind_of(message: str) -> str:
    """Return which of the known refusals it is; empty for another."""
    return next((kind for kind, pattern, _ in _SAYS if re.search(pattern, message)), "")


def cure(kind: str, addresses: Sequence[str], why: str = "") -> str:
    """Say what fixes it for these addresses; empty where only a look at the machine can tell.

    `why`, ssh's words, may name the user.
    """
    places = " ".join(addresses)
    record = (
        f"look at their fingerprints (`ssh-keyscan {places} | ssh-keygen -lf -`), and where"
        f" they are the machines' own, record them: `ssh-keyscan {places} >> ~/.ssh/known_hosts`"
    )
    if kind == NEW_KEY:
        return record
    if kind == OTHER_KEY:
        forget = "; ".join(f"ssh-keygen -R {address}" for address in addresses)
        return (
            f"where a machine was reinstalled, forget the old one (`{forget}`) and {record};"
            " else another machine answers in its place"
        )
    if kind == NO_KEY:
        login = why.partition(": Permission denied")[0]
        whom = login if re.fullmatch(r"[\w.-]{1,64}@[\w.-]{1,255}", login) else addresses[0]
        return (
            f"give it your key (`ssh-copy-id {whom}`), or name the right user and key in"
            " the inventory (ansible_user, ansible_ssh_private_key_file); ssh must work without"
            " a prompt"
        )
    if kind == NO_NAME:
        return "correct the name, or write the address into ansible_host"
    return ""


def out_of_reach(
    whys: Mapping[str, str], addresses: Mapping[str, str], *, listed: bool = True, user: str = ""
) -> list[str]:
    """Name all nodes that ssh does not reach, one sentence for all of one reason.

    `whys`: node to ssh's words; `addresses`: node to its address; `listed`: in an inventory;
    `user`: whom ssh connects as, where it was told.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for host, reason in whys.items():
        groups.setdefault((kind_of(reason), silence(reason)), []).append(host)
    sentences = []
    for (kind, why), hosts in groups.items():
        at = [addresses.get(host, host) for host in hosts]
        called = ", ".join(
            host if host == address else f"{host} ({address})"
            for host, address in zip(hosts, at, strict=True)
        )
        fixes = cure(kind, at, why) or (
            "see that it is on, that its address in the inventory is right and that it takes your"
            f" key (`ssh {user and f'{user}@'}{at[0]}` must work without a prompt)"
        )
        pronoun = "it" if len(hosts) == 1 else "them"
        left_out = ":".join(f"!{host}" for host in hosts)
        alternative = (
            f"take {pronoun} out of the inventory (out of one playbook: --limit '{left_out}')"
        )
        alternative = alternative if listed else f"leave {pronoun} out"
        sentences.append(f"{called} cannot be reached: {why}; {fixes}, or {alternative}")
    return sentences


def unusable(whys: Mapping[str, str], inventory: object, addresses: Mapping[str, str]) -> str:
    """Name all nodes that cannot be used, each with Ansible's words on why, in one sentence."""
    hosts: dict[tuple[str, str], list[str]] = {}
    for host, reason in whys.items():
        hosts.setdefault((kind_of(reason), silence(reason)), []).append(host)
    sentences = []
    for (kind, why), unusable_hosts in hosts.items():
        fixes = cure(kind, [addresses.get(host, host) for host in unusable_hosts], why)
        sentences.append(
            f"{', '.join(unusable_hosts)} cannot be used: {why}{fixes and '; '}{fixes}"
        )
    pronoun = "it" if len(whys) == 1 else "each"
    its = "its" if len(whys) == 1 else "each one's"
    which = "it" if len(whys) == 1 else "those that do not"
    return (
        f"{'; '.join(sentences)}; see that {pronoun} is on, that {its} address in the inventory is"
        f" right and that {pronoun} takes your key (`ansible {','.join(whys)} -i {inventory} -m"
        f" ping` must work without a prompt), or take {which} out of the inventory"
    )
