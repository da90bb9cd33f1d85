"""Which of the machine's clusters `down` removes; nothing is brought up here."""

import pytest

from tests.cluster import registry
from tests.cluster.__main__ import going, parser


def cluster(name: str, checkout: str) -> registry.Record:
    return registry.Record(name, f"/var/tmp/{name}", 1, 2, None, None, None, checkout=checkout)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([], ["main"]),
        (["--name", "theirs"], ["theirs"]),
        (["--mine"], ["main", "other"]),  # `make cluster-down`
        (["--all"], ["main", "other", "theirs", "unsaid"]),
    ],
)
def test_a_checkout_takes_down_its_own_clusters(words: list[str], names: list[str]) -> None:
    found = [
        cluster("main", registry.CHECKOUT),
        cluster("other", registry.CHECKOUT),
        cluster("theirs", "/home/her/trainbench"),
        cluster("unsaid", ""),  # an older checkout wrote no name into its record
    ]
    assert [record.name for record in going(parser().parse_args(["down", *words]), found)] == names
