"""`bench --detach`: go on in a session of its own, without a terminal, once all was checked.

Until its campaign has begun the process has the terminal's streams, so that what is refused is told
there. From then on they are a file of the campaign's folder.
"""

import contextlib
import os
import select
import shlex
import signal
import time
from typing import IO

from node.files import open_to_append
from runner.base.streams import complain, flush, leave_terminal, say, say_json
from runner.folder import names
from runner.folder.campaign import Campaign
from runner.folder.events import CAMPAIGN_BEGUN, RUN_BEGUN, Event
from runner.terms.printed_answers import DetachedAnswer

LOOK_IN_S = 20.0  # that the terminal's process waits for the first run to begin
LOOK_S = 0.2
BEGUN, RUNS = b"c", b"r"  # what the process says: the campaign has begun, its first run has


class Detached:
    """A second process, which is bench from now on; `process` is 0 in it, and its id in the first.

    Make it before any thread: it forks.
    """

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self._hears, self._tells = os.pipe()
        flush()
        self.process = os.fork()
        if self.process == 0:
            os.close(self._hears)
            os.setsid()  # the terminal's signals are not ours any more
        else:
            os.close(self._tells)

    def tell(self, event: Event) -> None:
        """Leave the terminal when the campaign begins; tell the first process of it."""
        mark = {CAMPAIGN_BEGUN: BEGUN, RUN_BEGUN: RUNS}.get(event.event)
        if event.event == CAMPAIGN_BEGUN:
            self._leave()
        if mark:
            with contextlib.suppress(OSError):  # it waits no longer
                os.write(self._tells, mark)

    def _leave(self) -> None:
        with open_to_append(self.campaign.path / names.LINES) as lines:
            leave_terminal(lines.fileno())

    def see_off(self, *, as_json: bool = False) -> int:
        """Wait, in the first process, until the first run begins; say how to look in again.

        Returns the exit code: that of a bench that ended before.
        """
        file = self.campaign.path / names.LINES
        with contextlib.ExitStack() as opened:
            lines, runs = None, False
            until = time.monotonic() + LOOK_IN_S
            with contextlib.suppress(KeyboardInterrupt):
                while not runs and (lines is None or time.monotonic() < until):
                    if not select.select([self._hears], [], [], LOOK_S)[0]:
                        continue
                    received = os.read(self._hears, 16)
                    if not received:
                        return self._ended(lines)
                    if lines is None:  # where nothing runs, bench removes them with the folder
                        lines = opened.enter_context(open_to_append(file))
                        lines.seek(0, os.SEEK_END)
                    runs = RUNS in received
            if lines is None:  # Ctrl-C came first: it is meant for bench
                os.kill(self.process, signal.SIGINT)
                return self._ended(None)
        if as_json:
            answer = DetachedAnswer(
                campaign=self.campaign.name,
                process=self.process,
                lines=str(file),
                runs=str(self.campaign.path.parent.resolve()),
            )
            say_json(answer)
            return 0
        name = self.campaign.name
        where = shlex.quote(str(self.campaign.path.parent.resolve()))
        options = f"--campaign {name} --runs {where}"
        say(f"campaign {name} continues without this terminal (process {self.process})")
        say(f"  log       {file}")
        say(f"  watch     python -m runner status --watch {options}")
        say(f"  stop      python -m runner stop {options}")
        return 0

    def _ended(self, lines: IO[bytes] | None) -> int:
        """Show what a bench said that is over, and return its exit code."""
        _, status = os.waitpid(self.process, 0)
        for line in lines.read().decode("utf-8", "replace").splitlines() if lines else ():
            complain(line)
        return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1
