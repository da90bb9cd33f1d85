"""End the bench that runs a campaign, from another terminal of its machine: Ctrl-C by `stop`."""

import os
import signal
import time
from collections.abc import Callable

from runner.folder.campaign import Campaign

PATIENCE_S = 60.0  # for its runs to end on every node, and their logs to come home
LOOK_S = 0.2


def end_bench(campaign: Campaign, cancelled: Callable[[], bool]) -> str:
    """Do what one Ctrl-C there does, and wait; say what came of it. Empty where none is seen."""
    process = campaign.holding_process()
    if not process:
        return ""
    os.kill(process, signal.SIGINT)
    title, began = f"campaign {campaign.name}: its bench (process {process})", time.monotonic()
    while campaign.holding_process() == process and not cancelled():
        if time.monotonic() - began > PATIENCE_S:
            return f"{title} was told to end, and has not after {PATIENCE_S:.0f} s; see its lines"
        time.sleep(LOOK_S)
    return f"{title} was ended"
