"""What bench refuses once it knows what the nodes have, such as a dataset that does not fit."""

import json
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from node.fingerprint import fingerprints
from runner.base.dataclass_schema import read
from runner.base.errors import UserError
from runner.folder import names
from runner.folder.campaign import Campaign
from runner.launch import inspection
from runner.launch.engine import Engine
from runner.matrix.file import parse_matrix
from runner.terms.inspected import ENV, Inspected, Sought
from tests.runner.builders import one_device, small_cluster

MANIFEST: dict[str, Any] = {"documents": 744, "tokens": 3_556_629, "vocab_size": 4096}


def check(manifest: dict[str, Any], system: str = "torch_gpt", **values: Any) -> None:
    words = "".join(f", {key}: {value}" for key, value in values.items())
    text = f"defaults: {{system: {system}{words}}}"
    (cell,) = parse_matrix(text, "m.yaml", "m", one_device).cells
    inspection.check_dataset(cell, manifest)


@pytest.mark.parametrize(
    ("system", "values"),
    [
        ("torch_gpt", {}),
        ("torch_gpt", {"vocab_size": 4096}),
        ("torch_gpt", {"vocab_size": 50257}),
        ("oneflow_gpt", {}),
        ("megatron_core", {}),
    ],
)
def test_a_vocabulary_that_holds_the_dataset_passes(system: str, values: dict[str, Any]) -> None:
    check(MANIFEST, system, **values)
    check({key: value for key, value in MANIFEST.items() if key != "vocab_size"}, system, **values)


@pytest.mark.parametrize("system", ["torch_gpt", "oneflow_gpt"])
def test_a_smaller_one_is_refused_by_its_key(system: str) -> None:
    with pytest.raises(UserError) as refused:
        check(MANIFEST, system, vocab_size=4000)
    assert str(refused.value) == (
        f"cell {system}: vocab_size is 4000, but dataset default has 4096 tokens; make it 4096 or"
        " more, or name another dataset"
    )


def test_too_few_documents_are_refused_by_the_dataset() -> None:
    with pytest.raises(UserError, match="cell torch_gpt: dataset default: "):
        check({**MANIFEST, "documents": 2})


# --- a trainer that setup did not bring -----------------------------------------------------------


class Nodes:
    """An engine whose nodes all see this machine's files; `odd` is what one of them says instead.

    It stands in for connections alone: what is said is what node/fingerprint.py says here.
    """

    def __init__(self, odd: Mapping[str, Any] | None = None) -> None:
        self.odd, self.asked = odd or {}, Sought({})

    def inspect(
        self, hosts: Sequence[str], asked: Sought, campaign: Campaign, cancelled: Callable[[], bool]
    ) -> dict[str, Inspected]:
        self.asked = asked
        files: dict[str, dict[str, str]] = {}
        relied = fingerprints(asked.folders, asked.pythons, asked.apart, files)
        odd = {**relied, **{name: self.odd[name] for name in relied if name in self.odd}}
        return {
            host: read(
                Inspected,
                {"relied": odd if host == hosts[-1] else relied, "relied_files": files},
            )
            for host in hosts
        }


@pytest.fixture
def trainer(tmp_path: Path) -> Path:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.py").write_text("print(1)\n")
    return tmp_path / "mine"


def asked(nodes: Nodes, trainer: Path, **more: Any) -> Campaign:
    """Inspect the two nodes of a cell of `system: command`, in one campaign each time."""
    keys = {"system": "command", "nodes": 2, "argv": ["python", "train.py"], "log": "torch_gpt"}
    text = json.dumps({"defaults": {**keys, "cwd": str(trainer), **more}})
    if (trainer / "m.yaml").exists():
        (trainer / "m.yaml").write_text(text)
    found = parse_matrix(text, "m.yaml", "m", one_device)
    cluster = small_cluster(2)
    campaign = Campaign(trainer.parent / "m-rack")
    campaign.path.mkdir(exist_ok=True)
    campaign.open(found, cluster)
    sizes = inspection.inspect(
        cast("Engine", nodes), campaign, cluster, found.cells, lambda: False, text
    )
    assert sizes == {}
    return campaign


def test_a_folder_and_a_python_are_recorded_without_pin_set_or_dataset(trainer: Path) -> None:
    nodes = Nodes()
    environment = {"python": sys.executable}
    recorded = asked(nodes, trainer, environment=environment).settings.environment or {}
    assert list(nodes.asked.paths) == [ENV]
    folder, python = recorded[f"folder {trainer}"], recorded[f"python {sys.executable}"]
    assert set(folder) == {"checksum"}
    assert python["python"] == platform.python_version()


def test_a_change_within_a_campaign_is_refused(trainer: Path) -> None:
    campaign = asked(Nodes(), trainer)
    begun = campaign.new_attempt(campaign.settings.cells[0].id, 1)
    (begun.path / names.RUN).write_text("{}")
    (begun.path / names.OUTCOME).write_text("{}")  # which nobody can read: it may be ok
    (trainer / "out").mkdir()
    (trainer / "out" / "config.json").write_text("{}")
    asked(Nodes(), trainer)
    (trainer / "train.py").write_text("print(2)\n")
    with pytest.raises(UserError) as refused:
        asked(Nodes(), trainer)
    said = str(refused.value)
    assert said.startswith(f"folder {trainer} on the nodes is not what campaign m-rack began with")
    assert "(train.py changed)" in said
    (campaign.path / "relied.json").unlink()  # as campaigns of before have none
    with pytest.raises(UserError, match=r"\(checksum changed from "):
        asked(Nodes(), trainer)
    relied_on_nothing = campaign.settings.environment
    (trainer / "train.py").write_text("print(1)\n")
    assert asked(Nodes(), trainer).settings.environment == relied_on_nothing


def test_a_matrix_beside_its_trainer_may_grow_and_nothing_else_may(trainer: Path) -> None:
    (trainer / "m.yaml").touch()
    (trainer / "conf.yaml").write_text("lr: 1\n")
    campaign = asked(Nodes(), trainer, env={"A": "1"})
    begun = campaign.new_attempt(campaign.settings.cells[0].id, 1)
    (begun.path / names.RUN).write_text("{}")
    (begun.path / names.OUTCOME).write_text("{}")
    asked(Nodes(), trainer, env={"A": "2"})
    (trainer / "conf.yaml").write_text("lr: 2\n")
    (trainer / "new.py").touch()
    (trainer / "train.py").unlink()
    changed = r"\(conf.yaml changed, new.py is new, train.py is gone\)"
    with pytest.raises(UserError, match=changed):
        asked(Nodes(), trainer, env={"A": "2"})


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"commit": "5" * 40, "edits": ""}, "differs from the one on n1 (checksum, commit, edits)"),
        ({"checksum": "5" * 64}, "differs from the one on n1 (checksum); give all nodes the same"),
        ({"problem": "/x is not there"}, "n2: /x is not there"),
    ],
)
def test_a_node_that_has_another_is_named(trainer: Path, odd: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as refused:
        asked(Nodes({f"folder {trainer}": odd}), trainer)
    assert words in str(refused.value)
    assert "n2" in str(refused.value)


def test_a_folder_that_is_not_there_is_refused(trainer: Path) -> None:
    with pytest.raises(UserError, match=r"n1: .*/nowhere is not there; bring the trainer there"):
        asked(Nodes(), trainer, cwd=str(trainer / "nowhere"))
    with pytest.raises(UserError, match="n1: /no/python cannot be started: No such file"):
        asked(Nodes(), trainer, environment={"python": "/no/python"})
