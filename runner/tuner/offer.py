"""Would a search answer a matrix's question with fewer runs? The line that bench says, once."""

from runner.matrix.tune_key import BATCH, FIXED
from runner.terms.cell import Matrix
from runner.terms.cluster import Cluster
from runner.terms.tuning import Tuning
from runner.tune.search import Search
from runner.tuner.knob_candidates import candidate_of, other_training

FEWEST_CELLS = 25  # of a matrix to which a search is offered
MOST_CELLS = 400  # of which a rehearsal takes seconds


def offer(matrix: Matrix, cluster: Cluster) -> str:
    """Return the line; empty where the cells are few, or are not all the same training."""
    cells, tuning = matrix.cells, Tuning()
    if matrix.tune is not None or not FEWEST_CELLS <= len(cells) <= MOST_CELLS:
        return ""
    axes = {key for cell in cells for key in cell.axes}
    if axes.intersection((*FIXED, BATCH)):
        return ""
    if any(other_training(cell, cells[0], tuning) for cell in cells):
        return ""
    candidates = [candidate_of(cell, cluster, tuning) for cell in cells]
    if any(
        candidate.layout is None for candidate in candidates
    ):  # nothing predicts them beforehand
        return ""
    started = {step.candidate for step in Search(candidates).rehearse([])}
    return (
        f"{len(cells)} cells: to find the fastest alone, `trainbench tune` would run about"
        f" {len(started)} of them (the axes as `tune: knobs:`; trainbench docs how-to/tune)"
    )
