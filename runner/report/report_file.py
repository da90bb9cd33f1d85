"""The report of a campaign that runs, as a file: `bench --report FILE`.

A thread of low priority writes it when a run began or ended, and for at most one part in SHARE of
the time; the last page has bench's own priority where the system lets it. A page that cannot be
written is one line on the terminal; bench goes on.
"""

import contextlib
import os
import threading
import time
from pathlib import Path

from runner.base.errors import UserError
from runner.base.files import atomic_file
from runner.base.streams import complain
from runner.folder.campaign import Campaign
from runner.launch.progress_layout import Picture
from runner.launch.status import look

SHARE = 10
LEAST_S = 5.0  # between two writings
LAST_S = 120.0  # for the last one
LOW_PRIORITY = 10  # a tenth of a processor that trainers share; at 19 a page took minutes


class ReportFile:
    """A page that follows a campaign, and says how far that is."""

    def __init__(self, path: Path, campaign: Campaign) -> None:
        self.path, self._campaign = path, campaign
        self._turn = threading.Condition()
        self._changed = self._is_final = False
        self._thread = threading.Thread(target=self._work, name="report", daemon=True)
        self._thread.start()

    def changed(self) -> None:
        """Have the page written again, soon."""
        with self._turn:
            self._changed = True
            self._turn.notify_all()

    def finish(self) -> None:
        """Write the last page, if the campaign ever began."""
        if self._thread.native_id is not None:
            _set_priority(self._thread.native_id, os.getpriority(os.PRIO_PROCESS, 0))
        with self._turn:
            self._is_final = True
            self._turn.notify_all()
        self._thread.join(LAST_S)

    def _work(self) -> None:
        here = os.getpriority(os.PRIO_PROCESS, 0)
        _set_priority(threading.get_native_id(), max(here, LOW_PRIORITY))
        not_before = 0.0
        while True:
            with self._turn:
                while not (self._is_final or (self._changed and time.monotonic() >= not_before)):
                    self._turn.wait(max(not_before - time.monotonic(), 0) or None)
                self._changed, is_final = False, self._is_final
            began = time.monotonic()
            if self._campaign.begun:
                self._write(is_final)
            if is_final:
                return
            not_before = time.monotonic() + max(LEAST_S, SHARE * (time.monotonic() - began))

    def _write(self, is_final: bool) -> None:
        try:
            live = "" if is_final else _progress(self._campaign)
            with atomic_file(self.path) as stream:
                stream.write(page_of(self._campaign, self.path.resolve().parent, live).encode())
        except Exception as error:  # whatever the folder holds: the campaign itself goes on
            complain(f"warning: {self.path} was not written: {error or type(error).__name__}")


def _set_priority(thread: int, priority: int) -> None:
    """Set a thread's priority; only root may raise one."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, thread, priority)


def page_of(campaign: Campaign, base: Path, live: str) -> str:
    """Return the report of a campaign's folder, as collect writes it; links begin at `base`."""
    from runner.report.page import to_html  # matplotlib takes a second to import
    from runner.tables.campaign_reading import PAGE_LOGS_MIB, read_campaign

    document = read_campaign(campaign, base, evidence=True, logs_mib=PAGE_LOGS_MIB)
    return to_html(document, live=live)


def _progress(campaign: Campaign) -> str:
    """Say how far a campaign is, as `status` does."""
    try:
        return Picture(look(campaign)).words
    except (UserError, OSError):
        return "The campaign runs."
