"""Take the tutorial's pictures from real runs, into docs/pictures: `make pictures`.

Runs the tutorial's two matrices on this machine, which `make demo` has set up. A terminal is drawn
by rich, from what a command prints to a terminal so wide; the report is a picture by Chromium.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from io import BytesIO, StringIO
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tools.site.links import ROOT

PICTURES = ROOT / "docs" / "pictures"
HEADLINE = ROOT / "docs" / "results" / "bundles" / "headline-on-an-h200.tar.gz"
COLUMNS, LINES = 100, 40
REPORT = (1100, 1545)
COLOURS = 64  # of a picture of the report, which is mostly white
# rich's own frame names a font that a page would fetch from elsewhere.
SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>{styles}
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px monospace }}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})"
clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def main() -> None:
    """Run, collect, and draw."""
    PICTURES.mkdir(exist_ok=True)
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        mine = Path(folder) / "mine.yaml"
        mine.write_text(page.partition("```yaml\n")[2].partition("```")[0], encoding="utf-8")
        for matrix, campaign, name in (
            ("matrix.yaml", "quickstart-local", "demo-table"),
            (str(mine), "micro-batches-local", "mine-table"),
        ):
            subprocess.run(_trainbench("bench", matrix), check=True)
            draw(printed(_trainbench("collect", "--campaign", campaign)), campaign, name)
        report = Path(folder) / "report.html"
        for name, words in (
            ("report", ["--campaign", "quickstart-local"]),
            ("headline", ["--campaign", str(HEADLINE), "--baseline", "trainer=nanoGPT"]),
        ):
            argv = _trainbench("collect", *words, "--format", "html", "--output", str(report))
            subprocess.run(argv, check=True)
            photograph(report, PICTURES / f"{name}.png")


def _trainbench(*words: str) -> list[str]:
    return [sys.executable, "-m", "runner", *words]


def printed(argv: list[str]) -> str:
    """Return what a command prints to a terminal, with its colours."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    with subprocess.Popen(argv, stdout=its, stdin=its, env=environment, cwd=ROOT):
        os.close(its)
        text = b""
        try:
            while piece := os.read(ours, 65536):
                text += piece
        except OSError:  # how Linux says that the last writer is gone
            pass
    os.close(ours)
    return text.decode().replace("\r\n", "\n")


def draw(text: str, campaign: str, name: str) -> None:
    """Draw a terminal with the command and what it printed."""
    console = Console(record=True, width=COLUMNS, file=StringIO())
    console.print(Text(f"$ trainbench collect --campaign {campaign}", style="bold"))
    console.print(Text.from_ansi(text.strip("\n")))
    drawn = console.export_svg(title="", theme=MONOKAI, code_format=SVG, unique_id=name)
    (PICTURES / f"{name}.svg").write_text(re.sub(r"\n\s+", "\n", drawn), encoding="utf-8")


def photograph(page: Path, picture: Path) -> None:
    """Take a small picture of a report's beginning."""
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder) / "shot.png"
        argv = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars"]
        size = f"--window-size={REPORT[0]},{REPORT[1]}"
        subprocess.run(
            [*argv, f"--user-data-dir={folder}/user", size, f"--screenshot={shot}", page.as_uri()],
            check=True,
            capture_output=True,
        )
        small = BytesIO()
        Image.open(shot).convert("RGB").quantize(COLOURS).save(small, "PNG", optimize=True)
    picture.write_bytes(small.getvalue())


if __name__ == "__main__":
    main()
