"""One bench a cluster: the locks that campaigns of one control machine share."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from runner.base.errors import UserError
from runner.launch import node_lock
from runner.launch.ssh.ssh_engine import in_use
from runner.terms.cluster import Node
from tests.runner.builders import small_cluster

NODES = small_cluster(3).nodes


def claimed(nodes: Sequence[Node], campaign: Path) -> AbstractContextManager[None]:
    return node_lock.claimed(in_use(nodes), campaign)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(node_lock, "PATIENCE_S", 0.05)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_node_in_use_is_refused_by_name_with_whose_it_is(tmp_path: Path) -> None:
    other = [replace(NODES[1], host="by-another-name")]
    with claimed(NODES[:2], tmp_path / "night"):
        with (
            pytest.raises(
                UserError, match=rf"^by-another-name is in use .* {tmp_path}/night; wait"
            ),
            claimed(other, tmp_path / "other"),
        ):
            pass
        with claimed(NODES[2:], tmp_path / "other"):
            pass
    with claimed(other, tmp_path / "other"):
        pass


def test_another_root_folder_on_the_machine_is_another_node(tmp_path: Path) -> None:
    with claimed(NODES, tmp_path / "a"), claimed(small_cluster(3, root="/b").nodes, tmp_path / "b"):
        pass


def test_a_cache_that_cannot_be_made_is_named_with_the_cure(cache: Path, tmp_path: Path) -> None:
    cache.write_text("a file")
    with (
        pytest.raises(UserError, match=r"cannot be made: .*; set XDG_CACHE_HOME to another"),
        claimed(NODES, tmp_path),
    ):
        pass
