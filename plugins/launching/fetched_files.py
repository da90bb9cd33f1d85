"""What of a node's run comes home, into its folder: log, arrivals, samples, stacks, event files,
traces.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from node.arrivals import MOST_BYTES as ARRIVALS_BYTES
from node.files import open_to_append
from node.schema import unfit
from node.supervisor import kinds
from node.supervisor.names import BROUGHT, LOG, is_trace
from node.supervisor.polling import EVENTS_BYTES, FETCH_BYTES, TRACES_BYTES
from plugins.launching.supervisor_client import BROKEN, LostError, SupervisorClient
from plugins.log_copy import BroughtLog
from plugins.node_action import one_line
from runner.base.exclusive import make_private
from runner.folder import names

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES_BYTES = 64 * 1024 * 1024  # of samples and stacks that are brought: days of them
FETCH_S = 120.0  # for 8 MiB of a file, at 70 KB/s and more


class FetchedFiles:
    """A node's folder of a run, here."""

    def __init__(self, folder: Path, client: SupervisorClient, log_cap_bytes: int) -> None:
        self.folder, self.client = folder, client
        self.log = BroughtLog(folder / names.LOG, folder / names.PART, log_cap_bytes)
        self.sampled = self.arrived = 0  # bytes of samples and of arrivals that were brought

    def add(self, answer: dict[str, Any]) -> None:
        """Write down what a poll brought."""
        self.log.add(answer["offset"], answer["data"])
        if answer["samples"] and self.sampled < SAMPLES_BYTES:
            with open_to_append(self.folder / names.SAMPLES) as stream:
                stream.write(answer["samples"])
            self.sampled += len(answer["samples"])
        if answer["arrivals"] and self.arrived < ARRIVALS_BYTES:
            with open_to_append(self.folder / names.ARRIVALS) as stream:
                stream.write(answer["arrivals"])
            self.arrived += len(answer["arrivals"])

    def complete(self, ending: dict[str, Any]) -> None:
        """Bring what the polls did not: the log up to its cap, samples, stacks, event files and
        traces; and the arrivals once more, whose older ones the node may have thinned.

        How the node's launcher ended is known by now. So what cannot be brought is only noted, in
        done's `log` for the log, in its `others` for the rest.
        """
        try:
            self.log.complete(ending["log_bytes"], lambda at, most: self.fetch(names.LOG, at, most))
        except (LostError, *BROKEN) as error:
            ending["log"] = f"incomplete: {one_line(error)}"
        try:
            (self.folder / names.ARRIVALS).unlink(missing_ok=True)
            events, traces = EVENTS_BYTES, TRACES_BYTES
            for name, size in ending["files"].items():
                if name.startswith(names.EVENTS):
                    self.bring(name, min(size, events))
                    events -= size
                elif is_trace(name):
                    self.bring(name, min(size, traces))
                    traces -= size
                else:
                    self.bring(name, min(size, SAMPLES_BYTES))
        except (LostError, *BROKEN) as error:
            ending["others"] = f"incomplete: {one_line(error)}"

    def bring(self, name: str, size: int) -> None:
        """Bring the rest of a file of the node's run folder."""
        path = self.folder / name
        make_private(path.parent)
        with open_to_append(path) as stream:
            while stream.tell() < size:
                stream.write(self.fetch(name, stream.tell(), size - stream.tell()))

    def fetch(self, name: str, offset: int, length: int) -> bytes:
        """Return bytes of a file from `offset`: `length`, or 8 MiB of them.

        Raises UnfitError for more or fewer, so that a file's size says how often it is asked for.
        """
        length = min(length, FETCH_BYTES)
        spec = {"name": name, "offset": offset, "length": length}
        data: bytes = self.client.ask("polling:fetch", spec, kinds.FETCHED, FETCH_S)["data"]
        if len(data) != length:
            raise unfit(f"the answer to fetch: {name}", f"ends at byte {offset + len(data)}")
        return data

    def whole(self, ending: dict[str, Any]) -> bool:
        """Whether all that the node has of the run is here, by its size."""
        sizes = {names.LOG: ending["log_bytes"], **ending["files"]}
        here = (size_of(self.folder / name) == size for name, size in sizes.items())
        return not ending.get("log") and not ending.get("others") and all(here)

    def close(self, ending: dict[str, Any], *, well: bool, all_well: bool) -> None:
        """Have the node remove the folder of a run that ended well, or keep it for a look; where
        all nodes ended well, the checkpoints, too.
        """
        ending["kept"] = True
        with contextlib.suppress(LostError, *BROKEN):  # a result is none the worse for it
            spec = {"keep": not well, "all_well": all_well}
            answer = self.client.ask("run_folder:close", spec, kinds.CLOSED, FETCH_S)
            ending["kept"] = not answer["removed"]


def fetchable(name: str) -> bool:
    """Whether a name that a node answered is one of a file beside its log, and of nothing else."""
    if name in BROUGHT and name != LOG:
        return True
    parts = name.split("/")
    plain = all(
        component and not component.startswith(".") and component.isprintable()
        for component in parts
    )
    event = parts[0] == names.EVENTS and "tfevents" in parts[-1]
    return plain and (event or is_trace(name)) and len(name) < 1000


def size_of(path: Path) -> int:
    """A file's size in bytes; -1 if missing."""
    try:
        return path.stat().st_size
    except OSError:
        return -1
