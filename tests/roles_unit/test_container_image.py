"""roles/container_image's action plugin: who keeps an image, and who is given it."""

import pytest

from roles.container_image.action_plugins.images import plan


@pytest.mark.parametrize(
    ("images", "keeper", "build", "needy"),
    [
        ({"a": "x", "b": "x"}, "a", False, []),
        ({"a": "", "b": "x", "c": "y", "d": "x"}, "b", False, ["a", "c"]),
        ({"a": "", "b": ""}, "a", True, ["b"]),
        ({"a": ""}, "a", True, []),
    ],
)
def test_one_node_has_it_or_builds_it_and_gives_it_to_the_others(
    images: dict[str, str], keeper: str, build: bool, needy: list[str]
) -> None:
    assert plan(images) == {"keeper": keeper, "build": build, "needy": needy}
