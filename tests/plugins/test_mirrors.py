"""plugins/filter/mirrors.py and node/mirrors.py, which it asks: the longest beginning wins."""

import pytest

from plugins.filter.mirrors import mirrored

MIRRORS = {
    "git": {
        "https://github.com/": "https://git.example.org/github/",
        "https://github.com/NVIDIA/": "/srv/nvidia/",
    }
}


def test_longest_beginning_wins() -> None:
    assert (
        mirrored("https://github.com/a/b", "git", MIRRORS) == "https://git.example.org/github/a/b"
    )
    assert mirrored("https://github.com/NVIDIA/apex", "git", MIRRORS) == "/srv/nvidia/apex"


@pytest.mark.parametrize("mirrors", [{}, None, {"git": None}, {"data": {"https://": "x"}}])
def test_address_without_a_mirror_stays(mirrors: dict[str, dict[str, str]] | None) -> None:
    assert mirrored("https://github.com/a/b", "git", mirrors) == "https://github.com/a/b"


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="'gti' is not a kind of mirror"):
        mirrored("https://github.com/a/b", "gti", MIRRORS)
