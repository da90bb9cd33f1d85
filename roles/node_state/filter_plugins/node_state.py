"""``result | apt_fault(cure)``: why apt, or what stands around it, failed, in one sentence.

``cure`` is a role's own for a package that no repository has.

Runs on the control node: a node whose disk is full runs no further module.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from node.printable import printable

MOST_LETTERS = 100_000  # of a node's words, and of one line of them
HALF, MOST_LINE = MOST_LETTERS // 2, 2_000
# The first that is found names the cause: a full disk makes apt say a dozen other things as well.
CAUSES: tuple[tuple[str, str], ...] = (
    (
        r"No space left on device|enough free (?:disk )?space",
        "the disk is full; free some space and run setup again, which goes on from there",
    ),
    (
        r"(?:Could not get lock|Unable to (?:acquire|lock)|Failed to lock apt)"
        r"(?:.*?held by process (?P<one>[^\n.]*))?",
        "another program is installing packages (process {one}); wait for it to end, or stop it, "
        "and run setup again",
    ),
    (
        r"(?:repository|release) '?(?P<one>https?://\S++|file:\S++|copy:\S++)[^\n]*is not signed"
        r"|(?P<two>https?://\S++|file:\S++)(?>[^\n]*?Release)[^\n]*"
        r"(?:NO_PUBKEY|BADSIG|EXPKEYSIG|REVKEYSIG|signatures? (?:were|was|couldn't|could not))",
        "repository {one} is not signed with the key that is trusted for it; correct the mirror, "
        "or name its own key in site_apt_fingerprints",
    ),
    (
        r"No package matching '(?P<one>[^']+)'|Unable to locate package (?P<two>\S+)"
        r"|no available installation candidate for (?P<three>\S+)"
        r"|Version '[^']*' for '[^']*' was not found[^\n]*",
        "no repository of this node has package {one}; {cure}",
    ),
    (
        r"(?:cannot fetch|Failed to fetch|Could not (?:resolve|connect to)|Unable to connect to)"
        r"\s+'?(?P<one>[^\s']+)",
        "cannot fetch {one}; bring that server back, or name a proxy in site_proxy or a mirror in "
        "site_mirrors.apt, and run setup again",
    ),
    (
        r"dpkg was interrupted",
        "dpkg was interrupted on this node and does not go on; look at `dpkg --configure -a`",
    ),
    (
        r"error processing (?:package|archive) (?P<one>\S+)",
        "package {one} does not install; its own words are in /var/log/apt/term.log",
    ),
    (
        r"unmet dependencies:\s*(?P<one>[^\n]+)|E: (?P<two>Unable to correct problems[^\n]*)",
        "apt finds no way to install this together with what is there: {one}",
    ),
)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name in ("results", "msg", "stderr", "stdout", "module_stderr", "module_stdout"):
            if name in value:
                yield from _strings(value[name])
    elif isinstance(value, list | tuple):
        for element in value:
            yield from _strings(element)


def apt_fault(result: object, cure: str = "correct the pin, or the repositories") -> str:
    """The cause in a failed task's result; without a known one, its own first line."""
    text = "\n".join(_strings(result))
    text = text if len(text) <= MOST_LETTERS else f"{text[:HALF]}\n{text[-HALF:]}"
    text = "\n".join(line[:MOST_LINE] for line in text.splitlines())
    for pattern, sentence in CAUSES:
        match = re.search(pattern, text, flags=re.IGNORECASE)
        if match:
            groups = [group for group in match.groups() if group]
            subject = (groups[0] if groups else "unknown").strip(" '\".:;,")
            return sentence.format(one=printable(subject), cure=cure)
    lines = list(filter(None, map(printable, text.splitlines())))
    return lines[0] if lines else "it failed without a word"


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """Filter names and their functions."""
        return {"apt_fault": apt_fault}
