"""The live page of a campaign while bench runs it: server, renderer, and where to look."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import jinja2

from node.printable import printable
from runner.base.errors import UserError
from runner.base.paths import TEMPLATES
from runner.report.page_script import content_policy, live_script
from runner.serve.page_server import PageServer, listening
from runner.serve.renderer import Renderer
from runner.serve.responses import Content
from runner.serve.written import stamp, written

LAST_MADE_S = 60.0  # for the last page to be made
LAST_S = 15.0  # for who looks to have it then


class LivePage:
    """A page that is served. `lasting` lets its readers have the end of the campaign."""

    def __init__(self, server: PageServer, renderer: Renderer) -> None:
        self._server, self._renderer = server, renderer

    @property
    def words(self) -> list[str]:
        """Say where it is, and how another machine comes there; the address holds the token."""
        server = self._server
        host, port = str(server.server_address[0]), server.port
        host = f"[{host}]" if ":" in host else host
        here = socket.gethostname() or "this-machine"
        return [
            f"live page until bench ends: {server.address}",
            f"from another machine: ssh -L {port}:{host}:{port} {here}, and the same address there",
        ]

    def last(self) -> None:
        """Wait until who looks has the last page, but not long; Ctrl-C does not wait."""
        with suppress(KeyboardInterrupt):
            self._renderer.finish(LAST_MADE_S, LAST_S)


@contextmanager
def live_page(campaign: Path, port: int, words: Callable[[], str]) -> Iterator[LivePage]:
    """Serve the report of a campaign's folder until the block ends; `words` say how far it is.

    The folder need not be there yet. Raises UserError where the port is taken.
    """

    def said() -> str:
        try:
            return words()
        except (UserError, OSError):  # before it began
            return ""

    renderer = Renderer(
        lambda number: written(campaign, number),
        lambda: stamp(campaign),
        waiting(campaign.name).encode(),
    )
    try:
        with listening(port, Content(campaign, renderer, said)) as server:
            yield LivePage(server, renderer)
    finally:
        renderer.close()


def waiting(campaign: str) -> str:
    """Write the page that is shown until the first report is made."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = live_script()
    return environment.get_template("page/waiting.html.j2").render(
        title=printable(campaign), script=script, policy=content_policy([script], live=True)
    )
