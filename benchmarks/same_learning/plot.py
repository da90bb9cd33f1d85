"""The loss curves of a model as one SVG file: all of them, and how far apart they are. Pure."""

import re
from collections.abc import Callable, Mapping
from itertools import combinations

import numpy as np
from matplotlib.axes import Axes

from benchmarks.same_learning.noise import FEWEST, Floats, means
from benchmarks.same_learning.table import Model
from runner.report.svg import FAINT, draw, line_style

WIDTH, HEIGHT = 660, 300
# The page's colours (templates/page/style.css), which a file of its own has to bring.
COLOURS: Mapping[str, str] = {
    **{"text": "#1b2330", "faint": "#5b6675", "grid": "#dfe3e8", "c0": "#0072b2", "c1": "#d55e00"},
    **{"c2": "#00856a", "c3": "#b8588f", "c4": "#b97f00", "c5": "#3d9bd4", "c6": "#6f5bb5"},
}
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    f' viewBox="0 0 {WIDTH} {2 * HEIGHT}" width="{1.5 * WIDTH:.0f}">'
    '<rect width="100%" height="100%" fill="#ffffff"/>\n{plots}\n</svg>\n'
)


def svg(model: Model) -> str:
    """Draw both plots, one below the other; each point is the mean of a twentieth of the run."""
    plots = [
        draw(name, f"{name} of {model.name}", HEIGHT, paint(model), WIDTH)
        for name, paint in (("losses", _losses), ("differences", _differences))
    ]
    size = f'width="{WIDTH}" height="{HEIGHT}"'
    placed = [f'<svg y="{at * HEIGHT}" {size}>{plot}</svg>' for at, plot in enumerate(plots)]
    return re.sub(
        r"var\(--(\w+)\)",
        lambda found: COLOURS[found[1]],
        SVG.replace("{plots}", "\n".join(placed)),
    )


_Paint = Callable[[Axes], Mapping[str, str]]


def _losses(model: Model) -> _Paint:
    def paint(axes: Axes) -> dict[str, str]:
        for place, reference in enumerate(model.references):
            label = "" if place else "fp32 eager, each seed"
            axes.plot(*_points(reference.loss), color=FAINT, linewidth=4, alpha=0.3, label=label)
        _paths(axes, model, np.zeros_like(model.references[0].loss))
        axes.set(ylabel=f"loss of {model.name}")
        axes.legend(fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
        return {}

    return paint


def _differences(model: Model) -> _Paint:
    def paint(axes: Axes) -> dict[str, str]:
        pairs = combinations((reference.loss for reference in model.references), 2)
        noise = np.sqrt(np.mean([np.square(means(one - other, FEWEST)) for one, other in pairs], 0))
        iterations, _ = _points(model.references[0].loss)
        axes.fill_between(iterations, -noise, noise, color=FAINT, alpha=0.2, linewidth=0)
        _paths(axes, model, model.references[0].loss)
        axes.set(xlabel="iteration", ylabel="minus fp32 eager of the same seed")
        return {}

    return paint


def _paths(axes: Axes, model: Model, less: Floats) -> None:
    for place, line in enumerate(line for line in model.lines if line.curves):
        if line.curves:
            style = line_style(place)
            axes.plot(*_points(line.curves.loss - less), **style, label=line.path.name)


def _points(loss: Floats) -> tuple[Floats, Floats]:
    return means(np.arange(1.0, len(loss) + 1), FEWEST), means(loss, FEWEST)
