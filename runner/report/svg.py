"""One plot as an inline SVG, by matplotlib, with text as text.

Colours are CSS variables of the page, so that plots follow it into dark mode.
"""

import io
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, cast

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from runner.base.escapes import TerminalLine

# matplotlib draws with stand-in colours that `_inline` turns into the page's CSS variables.
TEXT, FAINT, _GRID = "#010203", "#010204", "#010205"
SERIES = tuple(f"#0102{16 + index:02x}" for index in range(7))
_VARIABLES = {TEXT: "--text", FAINT: "--faint", _GRID: "--grid"} | {
    colour: f"--c{index}" for index, colour in enumerate(SERIES)
}
_DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.5, 1.5), (7, 2, 1.5, 2))
# Of what every plot has, and nothing refers to.
_UNUSED_ID = re.compile(r' id="(?:figure|axes|patch|[xy]tick|line2d|text|matplotlib\.axis)_\d+"')
_STYLE = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "figure.dpi": 72,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "font.size": 10,
    "font.sans-serif": ["DejaVu Sans"],  # measured by it; the page's own font draws
    "text.color": TEXT,
    "axes.labelcolor": FAINT,
    "axes.edgecolor": _GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.7,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelcolor": FAINT,
    "ytick.labelcolor": FAINT,
    "ytick.left": False,
    "lines.linewidth": 1.6,
}
WIDTH = 400  # SVG units: 1 px on a phone, about 1.35 px in two columns on a desktop
PANEL = 290  # the same for one of several small plots: 1.2 px on a phone, 1 px on a desktop


def _dashes(index: int) -> tuple[float, ...]:
    return _DASHES[index // len(SERIES) % len(_DASHES)]


def mark(index: int) -> dict[str, str]:
    """Return colour and dashes of the curve number `index`, for the page's own legend."""
    return {
        "colour": f"var(--c{index % len(SERIES)})",
        "dashes": " ".join(str(2 * dash) for dash in _dashes(index)),
    }


def line_style(index: int) -> dict[str, Any]:
    """Return the same for matplotlib."""
    return {"color": SERIES[index % len(SERIES)], "linestyle": (0, _dashes(index) or None)}


def draw(
    name: str,
    label: str,
    height: float,
    paint: Callable[[Axes], Mapping[str, str]],
    width: float = WIDTH,
) -> Markup:
    """Draw one plot as an inline SVG, `width` x `height` SVG units; `name` keeps its ids apart."""
    style = cast("dict[Any, Any]", _STYLE | {"svg.hashsalt": name})
    with mpl.rc_context(style), warnings.catch_warnings():
        # A glyph that matplotlib's own font lacks does not matter: the page's font draws it.
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # of figures that no scale can hold
        figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
        target = io.StringIO()
        try:
            titles = paint(figure.add_subplot())
            # What savefig calls, without its trial drawing: the layout needs none.
            FigureCanvasSVG(figure).print_svg(target, metadata={"Date": None})  # type: ignore[no-untyped-call]
        except Exception as error:  # one run's figures end no page
            return Markup('<p class="caption">This plot cannot be drawn: {}.</p>').format(
                TerminalLine(str(error))
            )
    return _inline(target.getvalue(), name, label, titles)


def _short(attribute: re.Match[str]) -> str:
    """Write coordinates to a hundredth of a unit: nobody sees more, and it is half of the text."""
    if attribute[0].startswith(' transform="rotate(-0 '):
        return ""
    return re.sub(r"(\.\d\d)\d+", r"\1", attribute[0])


def _inline(svg: str, name: str, label: str, titles: Mapping[str, str]) -> Markup:
    """Make matplotlib's SVG file an element of a page: no prolog, no sizes, ids of its own."""
    svg = svg[svg.index("<svg") :]
    # Its style rules are for every element of a document; the page has them for plots only.
    svg = re.sub(r"<(metadata|style)\b.*?</\1>", "", svg, flags=re.DOTALL)
    head, body = svg.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    aria = Markup('role="img" aria-label="{}"').format(label)
    body = re.sub(r' (?:d|x|y|transform)="[^"]*"', _short, body)
    body = re.sub(r">\s+<", "><", body)
    body = re.sub(r"font-family: [^;\"]*; ?", "", body)  # the page has its own for all of them
    body = _UNUSED_ID.sub("", body)
    body = re.sub(r'\bid="([^"]*)"', rf'id="{name}-\1"', body)
    body = re.sub(r'(url\(|href=")#', rf"\1#{name}-", body)
    for colour, variable in _VARIABLES.items():
        body = body.replace(colour, f"var({variable})")
    for gid, title in titles.items():  # after all that is replaced, so that titles stay as they are
        start = f'<g id="{name}-{gid}">'
        titled = Markup("<title>{}</title>").format(TerminalLine(title))
        body = body.replace(start, start + str(titled))
    return Markup(f"<svg {box.group() if box else ''} {aria}>{body}")  # noqa: S704 (made here)
