"""The one exception that a user sees: one sentence that says what is wrong and names the cure."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

MOST_FAULTS = 12  # that are told at once

NODES = "nodes"  # the inventory's group of machines to train on


class UserError(Exception):
    """Bad input or a refused request; the command line prints it and exits with code 2."""

    @property
    def sentences(self) -> Sequence[str]:
        """What is wrong, a line for each."""
        return (str(self),)


class SeveralFaultsError(UserError):
    """Several faults of one input, told together so that they can be corrected at once."""

    @property
    def sentences(self) -> Sequence[str]:
        """What is wrong, a line for each."""
        return self.args

    def __str__(self) -> str:
        return "\n".join(self.args)


class Faults:
    """The faults of one input so far, each once."""

    def __init__(self) -> None:
        self._sentences: dict[str, None] = {}

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Keep what the block raises for `check`. Raises SeveralFaultsError when there are many."""
        try:
            yield
        except UserError as error:
            self._sentences |= dict.fromkeys(error.sentences)
            if len(self._sentences) > MOST_FAULTS:
                self.check()

    def run_all(self, *checks: Callable[[], object]) -> None:
        """Run each check, also behind one that fails, and raise what they found as `check` does."""
        for check in checks:
            with self.gathered():
                check()
        self.check()

    def check(self) -> None:
        """Raise SeveralFaultsError, or UserError of one; nothing where there was no fault."""
        sentences = list(self._sentences)
        if len(sentences) > MOST_FAULTS:
            sentences[MOST_FAULTS:] = ["and more, which are told once these are corrected"]
        if sentences:
            raise SeveralFaultsError(*sentences) if len(sentences) > 1 else UserError(sentences[0])


def no_nodes(inventory: object) -> str:
    """Return what the runner and the playbooks say of an inventory without machines to train on."""
    return (
        f"the inventory {inventory} has no hosts in a group called {NODES}; put the machines to"
        " train on under it, as inventory/local/hosts.yml does; for a hostfile:"
        " TRAINBENCH_HOSTFILE=FILE ... -i inventory/allocation"
    )
