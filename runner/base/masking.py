"""What a secret looks like, and text without it: the one owner of both. Pure.

A secret is known by its name (`HF_TOKEN=X`, `--api-key X`, `"password": "X"`), by its form (a
vendor's prefix, a login in an address, a private key), or by its value, once it was learned from a
variable or an argument of such a name. Masked is what is shown or sent, never what runs.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import quote

from node.printable import escapes_removed

MASKED = "redacted"  # in place of a secret
SHORTEST = 6  # letters of a value that is looked for elsewhere: a shorter one is any word
LONGEST_LINE = 1 << 16  # bytes that are held back where a log has no line ends
MARGIN = 1 << 12  # bytes in which a name and its value are together
SHORT_TEXT = 1 << 9  # letters of a text whose spans are cached: a word of a command

# Names whose values are secrets; not TOKENIZERS_PARALLELISM, tokens, token_id, eos_token.
_CORE = re.compile(
    r"(?<!(?:bos|eos|pad|unk|cls|sep|per)[_-])(?<!mask[_-])token(?![is]|[_-]ids?(?![a-z]))"
    r"|secret|passw|passphrase|credential|api[_-]?key|access[_-]?key|private|authorization"
    r"|sshpass|[_-]pwd(?![a-z])"
    r"|(?:db|smtp|mysql|pg|ftp|proxy|user|admin|root|sudo)[_-]?pass(?![a-z])"
)
_MARKS = ("token", "secret", "pass", "pwd", "credential", "key", "private", "authorization")
_BEFORE = re.compile(r"[\w.-]{0,64}\Z")
# Behind the core of a name: its rest, what stands between, and the value.
_VALUE = re.compile(
    r"(?P<rest>(?:\w|-(?!>)){0,64}+)(?P<close>\\?[\"'])?\]?"
    r"(?P<between>[ \t]{0,40}(?:[=-]>|:=|[=:])[ \t]{0,40}|,[ \t]{0,40}|[ \t]+\.{3,}[ \t]*|[ \t]+)"
    r"(?:[\[(][ \t]*)?(?:(?:Bearer|Basic|Token)[ \t]+)?"
    r"(?:(?P<quote>\\?[\"'])(?P<quoted>[^\n]{1,20000}?)(?P=quote)"
    r"|[\"']?(?P<bare>[^\s,;)\]}\"'&]+))"
)
# No secrets: numbers with their units, constants, names of other variables, tokenizers' words.
_PLAIN = re.compile(
    r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?[A-Za-z/%µ]{0,12}|none|null|true|false|yes|no|n/a|\*+|\.+"
    rf"|\$\{{?\w+\}}?|<[^>]*>?|\[[A-Z]{{2,8}}\]?|{MASKED}|str|int|bool",
    re.IGNORECASE,
)
# Well-known forms, by a text that each holds: most texts hold none of them.
_START = r"(?<![A-Za-z0-9])"
_FORMS = {
    mark: re.compile(form)
    for mark, form in {
        "hf_": rf"{_START}hf_[A-Za-z0-9]{{20,}}",
        "gh": rf"{_START}gh[pousr]_[A-Za-z0-9]{{30,}}",
        "github_pat_": rf"{_START}github_pat_\w{{30,}}",
        "glpat-": rf"{_START}glpat-[\w-]{{20,}}",
        "sk-": rf"{_START}sk-[\w-]{{20,}}",
        "nvapi-": rf"{_START}nvapi-[\w-]{{20,}}",
        "AKIA": rf"{_START}AKIA[0-9A-Z]{{16}}(?![A-Za-z0-9])",
        "ASIA": rf"{_START}ASIA[0-9A-Z]{{16}}(?![A-Za-z0-9])",
        "AIza": rf"{_START}AIza[\w-]{{35}}",
        "xox": rf"{_START}xox[abeoprs]-[\w-]{{10,}}",
        "eyJ": rf"{_START}eyJ[\w-]{{8,}}\.eyJ[\w-]{{8,}}\.[\w-]*",
        "Bearer ": r"(?<=Bearer )[\w.~+/=-]{8,}",
        "-----BEGIN ": r"(?s)-----BEGIN [A-Z ]{0,30}KEY-----(.{1,20000}?)(?:(?=-----END)|\Z)",
        "://": r"(?<=://)[^/\s@]{1,4000}(?=@)",
    }.items()
}
# What parts a secret for a reader of bytes and not for one of a terminal.
_UNSEEN = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]"
)
_RUBBED_OUT = re.compile("[^\b\n]\b")

_Span = tuple[int, int, int]  # of a text: where the secret's name begins, the secret, its end


def is_secret(name: str) -> bool:
    """Return whether a variable, an option or a key is named like a secret."""
    return _CORE.search(name.lower()) is not None


def secrets_in(argv: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Yield each argument that holds a secret by its name: index, the text before it, the secret.

    These are `--password word`, `--password=word` and `PASSWORD=word`.
    """
    follows = False  # an option's value
    for index, word in enumerate(argv):
        name, equals, value = word.partition("=")
        secret = is_secret(name) and not any(map(str.isspace, name))
        if follows and not word.startswith("-"):
            yield index, "", word
        elif value and secret:
            yield index, f"{name}=", value
        follows = secret and not equals and word.startswith("-")


class Commands(Protocol):
    """What a node starts: as it was planned, or as a job said it."""

    @property
    def env(self) -> Mapping[str, str]:
        """Its variables."""

    @property
    def argv(self) -> Sequence[str]:
        """The one command."""

    @property
    def processes(self) -> Sequence[Sequence[str]]:
        """The commands, where there are several."""


class Masks:
    """Text without secrets: those of a name or form, and those that are known by their values."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: dict[str, None] = {}
        for value in values:
            self.add(value)

    @property
    def values(self) -> tuple[str, ...]:
        """What no reader is to see, wherever a text repeats it."""
        return tuple(self._values)

    def add(self, value: str) -> None:
        """Add a secret, as it is and as JSON, Python, an address and a shell write it.

        A short or plain one is left out: texts are full of them.
        """
        if len(value) < SHORTEST or (_PLAIN.fullmatch(value) and len(value) < 2 * SHORTEST):
            return
        forms = (
            value,
            json.dumps(value)[1:-1],
            repr(value)[1:-1],
            quote(value, "", "utf-8", "replace"),
        )
        for form in (*forms, value.replace("'", "'\"'\"'")):
            self._values[form] = None

    def learn(self, content: Any) -> None:
        """Add the secrets of JSON: values of keys, of arguments in lists, and those in texts."""
        if isinstance(content, Mapping):
            for key, value in content.items():
                if isinstance(value, str) and is_secret(str(key)):
                    self.add(value)
                self.learn(value)
        elif isinstance(content, list | tuple):
            if all(isinstance(item, str) for item in content):
                for _, _, value in secrets_in(content):
                    self.add(value)
                for item in content:
                    self._learn_text(item)
            else:
                for item in content:
                    self.learn(item)
        elif isinstance(content, str):
            self._learn_text(content)

    def _learn_text(self, text: str) -> None:
        for _, begin, end in _fixed_spans(text)[0]:
            if _is_random(text[begin:end]):
                self.add(text[begin:end])

    def learn_run(self, run: Commands) -> None:
        """Add the secrets of what a node of a run starts."""
        self.learn([dict(run.env), list(run.argv), *map(list, run.processes)])

    def argv(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return a command's words without secrets."""
        masked = list(map(self.text, argv))
        for index, before, _ in secrets_in(argv):
            masked[index] = before + MASKED
        return tuple(masked)

    def content(self, content: Any, key: str = "") -> Any:
        """Return JSON without secrets."""
        if isinstance(content, Mapping):
            return {self.text(str(k)): self.content(v, str(k)) for k, v in content.items()}
        if isinstance(content, list | tuple):
            if all(isinstance(item, str) for item in content) and not is_secret(key):
                return list(self.argv(content))
            return [self.content(item, key) for item in content]
        if isinstance(content, str):
            return MASKED if content and is_secret(key) else self.text(content)
        return content

    def text(self, text: str) -> str:
        """Return a text of whole lines without secrets, also those that escapes part."""
        return self._masked_as_shown(_cut(text, self._spans(text)))

    def blocks(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield a log's bytes without secrets, also those across two blocks."""
        pending, lines = (
            b"",
            max((len(value) for value in self._values if "\n" in value), default=0),
        )
        for block in blocks:
            text = (pending + block).decode("utf-8", "surrogateescape")
            cut = text.rfind("\n") + 1
            if len(text) - cut > LONGEST_LINE:
                cut = len(text) - MARGIN
            cut = max(0, min(cut, len(text) - lines))
            spans = self._spans(text)
            # Where the text ends within a secret, the next block has the rest of it.
            parted = (n for n, _, end in spans if n < cut and (cut < end or end == len(text)))
            cut = min(parted, default=cut)
            if len(text) - cut > 2 * len(block) + LONGEST_LINE:
                cut = len(text)  # a secret without an end
            masked = _cut(text[:cut], [span for span in spans if span[2] <= cut])
            yield self._masked_as_shown(masked).encode("utf-8", "surrogateescape")
            pending = text[cut:].encode("utf-8", "surrogateescape")
        yield self.text(pending.decode("utf-8", "surrogateescape")).encode(
            "utf-8", "surrogateescape"
        )

    def _spans(self, text: str) -> list[_Span]:
        by_name, by_form = _fixed_spans(text)
        spans = [*by_name, *by_form]
        for value in self._values:
            spans += [(at, at, at + len(value)) for at in _places(text, value)]
        return sorted(spans, key=lambda span: span[1])

    def _masked_as_shown(self, text: str) -> str:
        """Mask what is a secret once a terminal has shown it, line by line."""
        if not _UNSEEN.search(text):
            return text
        return "".join(map(self._line, text.splitlines(keepends=True)))

    def _line(self, line: str) -> str:
        if not _UNSEEN.search(line):
            return line
        visible = _UNSEEN.sub("", _RUBBED_OUT.sub("", escapes_removed(line)))
        masked = _cut(visible, self._spans(visible))
        return line if masked == visible else masked


def _cut(text: str, spans: Iterable[_Span]) -> str:
    parts, at = [], 0
    for _, begin, end in spans:
        if begin >= at:
            parts += [text[at:begin], MASKED]
        at = max(at, end)
    return "".join([*parts, text[at:]]) if parts else text


def _places(text: str, value: str) -> Iterator[int]:
    at = text.find(value)
    while at >= 0:
        yield at
        at = text.find(value, at + len(value))


def _fixed_spans(text: str) -> tuple[Sequence[_Span], Sequence[_Span]]:
    """Return the secrets of a text by their names, and by their form: kept for short ones, since
    runs of a campaign have the same words in their commands.
    """
    return _known_spans(text) if len(text) <= SHORT_TEXT else _spans_in(text)


def _spans_in(text: str) -> tuple[Sequence[_Span], Sequence[_Span]]:
    by_form = [
        (match.start(), *match.span(form.groups))
        for mark, form in _FORMS.items()
        if mark in text
        for match in form.finditer(text)
    ]
    return tuple(_named_secrets(text)), tuple(by_form)


_known_spans = lru_cache(maxsize=1 << 14)(_spans_in)


def _named_secrets(text: str) -> Iterator[_Span]:
    """Yield the secrets that follow a secret's name."""
    small = text.lower()
    if len(small) != len(text):  # a few letters outside of ASCII have small ones of two
        small = "".join(letter.lower() if letter.isascii() else letter for letter in text)
    if not any(mark in small for mark in _MARKS):
        return
    end = 0
    for core in _CORE.finditer(small):
        at = core.start()
        if at < end or not (match := _VALUE.match(text, core.end())):
            continue
        before = _BEFORE.search(text, max(end, at - 64), at)
        name = f"{before[0] if before else ''}{core[0]}{match['rest']}"
        of = "quoted" if match["quoted"] is not None else "bare"
        if is_secret(name) and _is_value(name, match, match[of]):
            end = match.end(of)
            yield before.start() if before else at, match.start(of), end


def _is_value(name: str, match: re.Match[str], value: str) -> bool:
    """Return whether a name and what follows it are a secret's, and not a sentence."""
    between = match["between"]
    option = name.startswith("-")
    if between.isspace() or (between[0] == "," and match["close"]):
        netrc = name.lower() == "password" and _is_random(value)  # its words, and no sentence
        return (option and not value.startswith("-")) or netrc
    if between[0] == ",":
        return False
    if _PLAIN.fullmatch(value):
        return (option or name.isupper()) and value[:1].isdigit() and value.isalnum()
    plain = name.lower() in ("token", "private", "secret") and ":" in between
    return not plain or bool(match["close"]) or _is_random(value)


def _is_random(value: str) -> bool:
    """Return whether a value can hardly be a word."""
    mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return len(value) >= 20 or (len(value) >= 8 and mixed and not _PLAIN.fullmatch(value))
