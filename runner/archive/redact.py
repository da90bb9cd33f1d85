"""Who and where taken out of a campaign: hosts, addresses, users, home folders, secrets.

The same name always becomes the same word (node1, address1, user1), in JSON, in file names and
inside logs, so that what was one machine stays one machine. Two steps: `learn` reads everything
once, then `text`, `content` and `name` replace. Numbers, statuses and versions stay.

What cannot be known is not found: a host that the campaign never names, a user name that is an
English word outside of a path. So an export that is to be published is still worth a look.
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runner.base.errors import UserError
from runner.base.masking import MASKED, Masks, is_secret
from runner.logs.decoding import whole_lines

PLACED = "placement"  # of a cell: what it asks of a scheduler
MOST_USERS = 2_000  # each word of each log is compared with all of them
# Users whose name tells nobody anything, or is a word that logs are full of.
_COMMON = frozenset(
    {
        *("root", "user", "users", "ubuntu", "debian", "admin", "test", "nobody", "runner", "home"),
        *("data", "model", "train", "torch", "python", "node", "step", "loss", "shared", "local"),
    }
)
_LOCAL = frozenset({"localhost", "localhost.localdomain"})
# Folders that hold a home for each user, wherever they are mounted: /home, /gpfs/users, /nfs/home2.
_HOMES = r"(?:(?<![\w.~/-])|(?<=file://))(?P<above>(?:/[\w.+-]+){0,6}?)/(?P<homes>home\d*|homes|[Uu]sers)"
_HOME = re.compile(rf"{_HOMES}/(?P<owner>[^\s/:\"',;)\]}}>]+)")
# What tells the name of a user, or a home folder, wherever it lies.
_ACCOUNT = re.compile(r"(?:USER|LOGNAME|USERNAME|SUDO_USER|ansible_user)", re.IGNORECASE)
_TOLD = re.compile(r"\b(HOME|USER|LOGNAME|SUDO_USER|ansible_user)=[\"']?([^\s\"',;)\]}]+)")
_IPV4 = r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?!\.?\w)"
_IPV6 = (  # with the last four bytes as IPv4, too
    r"(?<![\w.])(?:[0-9A-Fa-f]{0,4}:){2,7}"
    r"(?:(?:\d{1,3}\.){3}\d{1,3}(?![\w.])|[0-9A-Fa-f]{0,4}(?![\w:]|\.\d))"
)
_DASHED = r"(?<![\w-])ip(?:-\d{1,3}){4}(?!\w)"
_MAC = re.compile(r"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}")
_AT = re.compile(rf"(?<![\w.-])([A-Za-z_][\w-]*)@(?=[\w-]+\.|{_IPV4}|[\w-]+[:\s]|[\w-]+$)")
# DeepSpeed's launcher prints the nodes once more, as base64 of JSON.
_WORLD = re.compile(r"(?<=world_info=)[\w+/=-]{8,}")
# Lines of job.sh that tell the site: its accounts, partitions and nodes, also as n[01-04].
_SITE = (
    r"^#SBATCH --(?:account|partition|qos|reservation|constraint|nodelist|exclude|comment"
    r"|dependency)=\S+"
)
_VERSION = re.compile(r"(?:version|driver|cudnn|cann)\W{0,3}$|==$", re.IGNORECASE)


def distinct(host: str) -> bool:
    """Return whether a host's name can be told from other words wherever it stands."""
    return len(host) > 1 and (not host.isalpha() or len(host) >= 8)


class Redaction:
    """The names of one campaign and the words that stand for them.

    `kept_words` are not users' names, except in a path or a login: those of systems and parameters.
    """

    def __init__(self, hosts: list[str], users: list[str], kept_words: Iterable[str] = ()) -> None:
        self._masks = Masks()
        self._kept_words = _COMMON.union(kept_words)
        self._hosts: dict[str, str] = {}
        self._nodes = 0  # that they are names of
        self._addresses: dict[str, str] = {}
        self._users: dict[str, str] = {}
        self._homes: dict[str, None] = {}  # that lie elsewhere
        self._pattern: re.Pattern[str] | None = None
        for host in hosts:
            self.host(host)
        for user in users:
            self._user(user)

    def host(self, name: str, same_as: str | None = None) -> None:
        """Add a host, or another name of a known one."""
        if name and name not in _LOCAL and name not in self._hosts and not _is_address(name):
            alias = self._hosts.get(same_as or "")
            self._nodes += alias is None
            self._hosts[name] = alias or f"node{self._nodes}"
            self._pattern = None

    def _user(self, name: str) -> None:
        if name and name != "root" and name not in self._users:
            if len(self._users) == MOST_USERS:
                raise UserError(
                    f"more than {MOST_USERS:,} home folders or logins of different users are named"
                    " in the campaign; export without --redact and redact by hand"
                )
            self._users[name] = f"user{len(self._users) + 1}"
            self._pattern = None

    # --- first: who is there -------------------------------------------------------------------

    def learn(self, content: Any) -> None:
        """Learn from text or JSON: users by home folders and logins, secrets by their names."""
        self._masks.learn(content)
        self._learn_users(content)

    def _learn_users(self, content: Any) -> None:
        if isinstance(content, Mapping):
            for key, value in content.items():
                if isinstance(value, str):
                    self._account(str(key), value)
                self._learn_users(str(key))
                self._learn_users(value)
        elif isinstance(content, list):
            for item in content:
                self._learn_users(item)
        elif isinstance(content, str):
            for match in _HOME.finditer(content):
                self._user(match["owner"])
            for match in _TOLD.finditer(content) if "=" in content else ():
                self._account(*match.groups())
            for match in _AT.finditer(content) if "@" in content else ():
                if match[1] not in self._kept_words:
                    self._user(match[1])

    def _account(self, name: str, value: str) -> None:
        """Learn a user by what is called USER, and a home folder by what is called HOME."""
        if name == "HOME" and value.startswith("/"):
            folder = value.rstrip("/")
            user = folder.rpartition("/")[2]
            if folder.count("/") > 1 and not _HOME.fullmatch(folder):
                self._homes[folder] = None
            if folder.count("/") > 1 and user not in self._kept_words:
                self._user(user)
        elif _ACCOUNT.fullmatch(name) and value not in self._kept_words and "/" not in value:
            self._user(value)

    # --- then: words for them ------------------------------------------------------------------

    def name(self, component: str) -> str:
        """Redact one part of a path: `0003-host` and `host.json` are of hosts, whatever their
        names.
        """
        match = re.fullmatch(r"(\d{4}-)?(.+?)(\.json)?", component)
        if match and match[2] in self._hosts:
            return f"{match[1] or ''}{self._hosts[match[2]]}{match[3] or ''}"
        return self.text(component)

    def content(self, content: Any, key: str = "") -> Any:
        """Redact every string of JSON; a host's name by itself is one, however short."""
        if isinstance(content, Mapping) and key == PLACED:
            return dict.fromkeys(content, MASKED)
        if isinstance(content, Mapping):
            return {
                self._hosts.get(str(name)) or self.text(str(name)): self.content(value, str(name))
                for name, value in content.items()
            }
        if isinstance(content, list):
            if all(isinstance(item, str) for item in content):
                content = list(self._masks.argv(content))
            return [self.content(item, key) for item in content]
        if not isinstance(content, str):
            return content
        if is_secret(key) and content:
            return MASKED
        return self._hosts.get(content) or self.text(content)

    def text(self, text: str) -> str:
        """Redact text of whole lines."""
        return self._without_names(self._masks.text(text))

    def blocks(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Redact a file; bytes that are not text stay as they are."""
        for lines in whole_lines(self._masks.blocks(blocks)):
            text = self._without_names(lines.decode("utf-8", "surrogateescape"))
            yield text.encode("utf-8", "surrogateescape")

    def _without_names(self, text: str) -> str:
        if self._pattern is None:
            self._pattern = self._compiled()
        return self._pattern.sub(self._word, text)

    def _compiled(self) -> re.Pattern[str]:
        def names(hosts: list[str]) -> str:
            return "|".join(re.escape(word) for word in sorted(hosts, key=len, reverse=True))

        parts = [rf"(?P<site>{_SITE})", rf"(?P<world>{_WORLD.pattern})"]
        if self._homes:
            parts.append(rf"(?<![\w.~-])(?P<place>{names(list(self._homes))})(?![\w.-])")
        # Python names the group that was closed last: the outer one.
        parts.append(rf"(?P<home>{_HOME.pattern})")
        parts.append(rf"(?P<dashed>{_DASHED})")
        parts.append(rf"(?P<v4>{_IPV4})")
        parts.append(rf"(?P<v6>{_IPV6})")
        clear = [host for host in self._hosts if distinct(host)]
        if clear:
            # With its domain, which would tell the site.
            domain = r"(?:(?:\.[A-Za-z][\w-]*){2,}|\.(?:local|lan|internal|cluster)\b)?"
            parts.append(rf"(?<![A-Za-z0-9])(?P<host>{names(clear)})(?![A-Za-z0-9]){domain}")
        if vague := [host for host in self._hosts if not distinct(host)]:
            before = r"(?:^|(?<=@)|(?<=[Hh]ost[=:])|(?<=[Hh]ost[=:] )|(?<=[Hh]ostname=)"
            before += r"|(?<=nodes/\d{4}-))"
            parts.append(rf"{before}(?P<vague>{names(vague)})(?=: |:\d|/|\s|$)")
        users = [user for user in self._users if user not in self._kept_words and len(user) > 2]
        if users:
            parts.append(rf"(?<![A-Za-z0-9])(?P<user>{names(users)})(?![A-Za-z0-9])")
        return re.compile("|".join(parts), re.MULTILINE)

    def _word(self, match: re.Match[str]) -> str:
        """Return what stands for one name."""
        kind = match.lastgroup or ""
        text = match[0]
        if kind == "world":
            return MASKED
        if kind == "site":
            return f"{text.partition('=')[0]}={MASKED}"
        if kind == "home":
            return self._home(match["above"], match["homes"], match["owner"])
        if kind == "place":
            return self._home("", "home", text.rpartition("/")[2])
        if kind == "dashed":
            return self._address(text[3:].replace("-", "."), "")
        if kind in ("v4", "v6"):
            return self._address(text, match.string[max(0, match.start() - 12) : match.start()])
        if kind in ("host", "vague"):
            return self._hosts[match[kind]]
        return self._users[text]

    def _home(self, above: str, homes: str, user: str) -> str:
        """Return a home folder without its user's name, nor where a site has its file systems."""
        self._user(user)
        return f"/{'home' if above else homes}/{self._users.get(user, user)}"

    def _address(self, text: str, before: str) -> str:
        key = text
        if not _MAC.fullmatch(text):
            if not _is_address(text) or _VERSION.search(before):
                return text
            address = ipaddress.ip_address(text)
            if isinstance(address, ipaddress.IPv6Address):
                address = address.ipv4_mapped or address
            if address.is_loopback or address.is_unspecified or text.startswith("255."):
                return text
            key = str(address)
        return self._addresses.setdefault(key, f"address{len(self._addresses) + 1}")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
