"""bench --notify COMMAND: a command of the user's own, run at a campaign's end and at failures.

It is told by environment variables and, on standard input, by the event as one JSON object
(docs/runs.md). What it prints is dropped; a failure or a timeout prints one line.
"""

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from node.printable import printable
from runner.folder import events
from runner.folder.events import Event

PATIENCE_S = 60.0
TOLD = ("event", "campaign", "cell", "status", "reason", "folder")  # as TRAINBENCH_EVENT and so on


class Notifier:
    """Runs a command for some events, one after the other and beside the campaign.

    Leaving the block waits for those that are still to come.
    """

    def __init__(self, argv: Sequence[str], complain: Callable[[str], None]) -> None:
        self.argv = argv
        self.complain = complain
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="notify")

    def __call__(self, event: Event) -> None:
        """Run the command where a campaign ended, or a run that is not ok."""
        failed = event.event == events.RUN_ENDED and event.status != "ok"
        if self.argv and (failed or event.event == events.CAMPAIGN_ENDED):
            self._pool.submit(self._run, event)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._pool.shutdown(wait=True)

    def _run(self, event: Event) -> None:
        variables = {f"TRAINBENCH_{name.upper()}": printable(getattr(event, name)) for name in TOLD}
        try:
            ended = subprocess.run(
                self.argv,
                input=json.dumps(event.to_json()).encode() + b"\n",
                env={**os.environ, **variables},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=PATIENCE_S,
                check=False,
                start_new_session=True,  # Ctrl-C is for the campaign
            )
        except subprocess.TimeoutExpired:
            self.complain(f"--notify: {self.argv[0]} took more than {PATIENCE_S:g} s")
        except (OSError, ValueError) as error:
            self.complain(f"--notify: {self.argv[0]} cannot be run: {error}")
        else:
            if ended.returncode:
                stderr = printable(ended.stderr[-500:].decode("utf-8", "replace")).strip()
                summary = f"--notify: {self.argv[0]} ended with exit code {ended.returncode}"
                self.complain(f"{summary}: {stderr}" if stderr else summary)
