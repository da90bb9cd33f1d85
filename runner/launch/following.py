"""`status --watch`: a campaign as bench itself shows it, from another terminal, by its folder."""

import time

from runner.base.console import Screen
from runner.base.text import counted
from runner.folder import events
from runner.folder.campaign import Campaign
from runner.launch.campaign_status import Status
from runner.launch.progress_layout import Picture
from runner.launch.screen import showing, to_the_bottom
from runner.launch.status import look
from runner.launch.view import ended_line

FIRST = 10  # lines of runs that had ended before somebody looked
LOOK_S = 0.5  # between two looks at what happened


def follow(campaign: Campaign, console: Screen) -> Status:
    """Show it until no bench runs it and nothing of it waits; how it stands then."""
    to_the_bottom(console)
    # Events themselves, not their number: of a long file only the end is read.
    reported = set(_ended(campaign)[:-FIRST])
    if reported:
        console.print(f"{counted(len(reported), 'run')} ended before")
    with showing(console, lambda: Picture(look(campaign))):
        while True:
            over = not campaign.is_locked() and not look(campaign).queued
            for event in _ended(campaign):
                if event not in reported:
                    console.print(ended_line(event))
                    reported.add(event)
            if over:
                break
            time.sleep(LOOK_S)
    return look(campaign)


def _ended(campaign: Campaign) -> list[events.Event]:
    return [event for event in events.events(campaign.path) if event.event == events.RUN_ENDED]
