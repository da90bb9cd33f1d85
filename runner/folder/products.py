"""products.json: what doctor's matrix product reached, in its own folder and in each run's.

Doctor keeps the newest of each node there for a week. A run takes along what there is of its nodes
when it begins, so that its figures stay what they were, on another machine, too.
"""

from pathlib import Path

from runner.base.dataclass_schema import shape
from runner.folder import names
from runner.folder.stored import OfThisVersion, UnreadableError, load, write_json
from runner.terms.product import Products

PRODUCTS = OfThisVersion(shape(Products))


def load_products(folder: Path) -> Products:
    """Return what a folder's products.json holds; nothing without one. Raises UnreadableError."""
    return load(folder / names.PRODUCTS, PRODUCTS, names.PRODUCTS) or Products()


def keep_products(checkup: Path, measured: Products, now: float) -> None:
    """Add what doctor has measured; what is older than a week, or cannot be read, goes."""
    try:
        before = load_products(checkup)
    except UnreadableError:
        before = Products()
    write_json(checkup / names.PRODUCTS, before.with_newer(measured).fresh(now).to_json())
