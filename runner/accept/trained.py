"""How a run of several groups ended."""

from runner.base.text import tail
from runner.folder.attempt import RunFolder
from runner.folder.endings import first_bad
from runner.results.decide import last_words


class Trained:
    """A run of several groups that has ended."""

    def __init__(self, attempt: RunFolder, words: str) -> None:
        self.attempt, self.words = attempt, words

    @property
    def cause(self) -> str:
        """What ended it first; empty where it ended well."""
        halt = self.attempt.halt
        return halt.cause if halt else ""

    @property
    def failure(self) -> str:
        """Say why it did not end well; nothing where it did."""
        halt, endings = self.attempt.halt, self.attempt.endings()
        if halt is not None:
            ranks = {host: rank for rank, host in self.attempt.hosts.items()}
            rank = ranks.get(str(halt.host))
            printed = last_words(tail(self.attempt.log(rank))) if rank is not None else ""
            return f"{halt.message}{': ' + printed if printed else ''}"
        if (bad := first_bad(endings)) is not None:
            return f"{bad}: {endings[bad].words}"
        if len(endings) < len(self.attempt.hosts):
            return self.words or "a node gave no answer"
        return ""
