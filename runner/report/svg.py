"""One plot as an inline SVG, by matplotlib, with text as text.

Colours are CSS variables of the page, so that plots follow it into dark mode.
"""

import io
import re
import warnings
from collections.abc import Mapping
from typing import Any, Literal, cast

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame

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


Kind = Literal["line", "marked", "point"]
IDEAL, GREY = -1, -2  # places of lines without a colour: dotted; of one of many nodes
_OF_PLACE: dict[int, dict[str, Any]] = {
    IDEAL: {"color": FAINT, "linewidth": 1, "linestyle": (0, (1, 2))},
    GREY: {"color": FAINT, "linewidth": 0.7},
}


def _dashes(index: int) -> tuple[float, ...]:
    return _DASHES[index // len(SERIES) % len(_DASHES)]


def mark(index: int) -> dict[str, str]:
    """Return colour and dashes of the curve number `index`, for the page's own legend."""
    return {
        "colour": f"var(--c{index % len(SERIES)})",
        "dashes": " ".join(str(2 * dash) for dash in _dashes(index)),
    }


def draw(
    frame: DataFrame,
    x: str,
    y: str,
    by: str,
    interval: tuple[str, str] | None = None,
    *,
    name: str,
    small: bool = False,
    log: str = "",
    kind: Kind = "line",
    **settings: Any,
) -> Markup:
    """Draw column `y` over column `x` as an inline SVG, one line per value of `by`.

    Each row has its line's colour in `place` (or IDEAL, GREY), its `title` on hover, and its `href`
    ("": none); `interval` are the columns of the ends of an interval, NaN without one. `name` keeps
    the plot's ids apart; the axes in `log` (x, xy) are logarithmic; `settings` are matplotlib's.
    """
    style = cast("dict[Any, Any]", _STYLE | {"svg.hashsalt": name})
    with mpl.rc_context(style), warnings.catch_warnings():
        # A glyph that matplotlib's own font lacks does not matter: the page's font draws it.
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", RuntimeWarning)  # of figures that no scale can hold
        width, height = (PANEL, 190) if small else (WIDTH, 260)
        figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
        axes, target = figure.add_subplot(), io.StringIO()
        try:
            titles = _lines(axes, frame, x, y, by, interval, kind)
            if kind == "line":
                axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
                axes.grid(visible=False, axis="x")
            for axis in log:
                getattr(axes, f"set_{axis}scale")("log", base=2)
            if "y" in log:
                axes.yaxis.set_major_formatter("{x:.4g}")
            axes.set(**{"xlabel": x, "ylabel": y, **settings})
            if "xticks" in settings:
                axes.minorticks_off()
            # What savefig calls, without its trial drawing: the layout needs none.
            FigureCanvasSVG(figure).print_svg(target, metadata={"Date": None})  # type: ignore[no-untyped-call]
        except Exception as error:  # one run's figures end no page
            return Markup('<p class="caption">This plot cannot be drawn: {}.</p>').format(
                TerminalLine(str(error))
            )
    label = f"{y} over {x}, one {'point' if kind == 'point' else 'line'} per {by}"
    return _inline(target.getvalue(), name, label, titles)


def _lines(
    axes: Axes,
    frame: DataFrame,
    x: str,
    y: str,
    by: str,
    interval: tuple[str, str] | None,
    kind: Kind,
) -> dict[str, str]:
    """Draw the lines, short ones above; return the title of each, by its id."""
    titles = {}
    lines = [line for _, line in frame.groupby(by, sort=False)]
    for number, rows in enumerate(sorted(lines, key=len, reverse=True)):
        place, title, href = rows.iloc[0][["place", "title", "href"]]
        own = {"color": SERIES[place % len(SERIES)], "linestyle": (0, _dashes(place) or None)}
        look = dict(_OF_PLACE.get(place) or own)
        if kind == "point":
            look |= {"linestyle": "none", "alpha": 0.85}
        if (kind != "line" and place != IDEAL) or len(rows) == 1:
            look |= {"marker": "o", "markersize": 4}
        (drawn,) = axes.plot(rows[x], rows[y], **look)
        if title:
            drawn.set_gid(f"line{number}")
            titles[f"line{number}"] = title
        if href:
            drawn.set_url(href)
        if interval is not None and place != IDEAL:
            known = rows.dropna(subset=list(interval))
            low, high = (known[end] for end in interval)
            ends = [(known[y] - low).clip(lower=0), (high - known[y]).clip(lower=0)]
            bar = {"ecolor": look["color"], "elinewidth": 1.2, "capsize": 3}
            if len(known):
                axes.errorbar(known[x], known[y], ends, fmt="none", **bar)
    return titles


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
