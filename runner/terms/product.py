"""What doctor's matrix product reached on nodes, as data: products.json is this."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from node.schema import Number
from node.validated_text import HostName

WEEK_S = 7 * 86_400.0  # after which a measurement says nothing of a node any more


@dataclass(frozen=True)
class Product:
    """One node's product in one arithmetic: TFLOP/s of each of its devices, all of them at once.

    `at` is when, by the control node's clock (epoch seconds).
    """

    arithmetic: str
    at: Annotated[float, Number(0)]
    tflop_per_s: tuple[Annotated[float, Number(0)], ...]


@dataclass(frozen=True)
class Products:
    """The newest product of each node in each arithmetic, by host."""

    nodes: Mapping[Annotated[str, HostName], tuple[Product, ...]] = field(default_factory=dict)

    def fresh(self, now: float, hosts: Collection[str] | None = None) -> Products:
        """Return those measured within the week before `now`; of `hosts` alone, if given."""
        recent = {
            host: tuple(product for product in products if 0 <= now - product.at <= WEEK_S)
            for host, products in self.nodes.items()
            if hosts is None or host in hosts
        }
        return Products({host: products for host, products in recent.items() if products})

    def with_newer(self, newer: Products) -> Products:
        """Return these, except what the newer ones have measured again."""
        nodes = dict(self.nodes)
        for host, products in newer.nodes.items():
            again = {product.arithmetic for product in products}
            older = (product for product in nodes.get(host, ()) if product.arithmetic not in again)
            nodes[host] = (*older, *products)
        return Products(nodes)

    def to_json(self) -> dict[str, Any]:
        """Return what products.json holds."""
        return asdict(self)
