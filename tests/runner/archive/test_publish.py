"""A publication: its gate, its bundle, and what its renders say and do not say."""

import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.__main__ import main
from runner.archive import environments
from runner.archive.environments import installed
from runner.archive.publication import fenced
from runner.folder.campaign import Campaign
from runner.systems.common.pins import pins
from runner.terms.cell import Cell
from runner.terms.inspected import Inspected
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import COMMIT, OUT_OF_MEMORY, Story, inspected, torch_gpt, write

PIN = next(iter(pins("torch_gpt")))
HOSTILE = "<script>x</script> ``` \x1b[2J [a](http://x) | # `"


def env(**more: Any) -> dict[str, Any]:
    """What `verify` leaves on a node, as far as it matters here."""
    return {
        "cpu": {"model": "EPYC", "sockets": 2, "cores": 64, "threads": 128},
        "network": {"interfaces": {"eth0": {"carries": "cluster", "speed_mbit_s": 25_000}}},
        "cuda_toolkits": {"/usr/local/cuda": "12.8"},
        "systems": {
            f"torch_gpt/{PIN}": {
                "torch": "2.13.0",
                "identity": {"commit": COMMIT},
                "lock": {"torch": "2.13.0", "numpy": "2.4.6"},
            }
        },
        **more,
    }


def facts(host: str) -> dict[str, Any]:
    return inspected(host, files={"env": env()})


def campaign(runs: Path, broken: int | None = None, **defaults: Any) -> Campaign:
    matrix = small_matrix(
        {"zero_stage": [0, 1]}, {"nodes": 2, **defaults}, repeats=3, warmup_iters=5
    )

    def story(cell: Cell, repeat: int) -> Story:
        if cell.parameters["zero_stage"] == broken and repeat == 2:
            halt = {"cause": "exit", "host": "n2", "message": "n2: exit code 1"}
            return Story({0: torch_gpt(5, of=50), 1: HOSTILE + OUT_OF_MEMORY}, halt)
        return Story({0: torch_gpt(60)})

    return write(runs, matrix, small_cluster(), story, facts=facts)


Publish = Callable[..., Path]


@pytest.fixture
def publish(tmp_path: Path) -> Publish:
    def go(of: Campaign, *more: str, code: int = 0) -> Path:
        target = tmp_path / "out" / "x.tar.gz"
        target.parent.mkdir(exist_ok=True)
        assert main(["publish", str(of.path), "-o", str(target), *more]) == code
        return target

    return go


def read(bundle: Path) -> dict[str, str]:
    with tarfile.open(bundle) as tar:
        return {
            member.name.partition("/")[2]: stream.read().decode()
            for member in tar.getmembers()
            if (stream := tar.extractfile(member))
        }


def test_a_campaign_whose_cells_are_all_publishable_becomes_a_bundle(
    tmp_path: Path, publish: Publish, capsys: pytest.CaptureFixture[str]
) -> None:
    of = campaign(tmp_path)
    files = read(publish(of, "--entity", "Example Lab"))
    assert "Not publishable" not in files["README.md"]
    assert {cell["publishable"] for cell in json.loads(files["publication.json"])["cells"]} == {
        True
    }
    for name in ("campaign.json", "tables/report.html", "tables/matrix.yaml", "manifest.json"):
        assert name in files
    assert sum(name.endswith("launcher.log") for name in files) == 12
    said = capsys.readouterr().err
    assert "SHA-256 " in said
    assert "gpt2-tiny_cpu_2026" in said


def test_one_that_is_not_is_named_with_why_and_the_cure_and_nothing_is_written(
    tmp_path: Path, publish: Publish, capsys: pytest.CaptureFixture[str]
) -> None:
    target = publish(campaign(tmp_path, broken=1), code=1)
    assert not target.exists()
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("not publishable: zero_stage=1: not_ok: ")
    assert first.endswith(".")
    assert last == (
        "error: 1 of 2 cells are not publishable; cure them, or publish them with --anyway, which"
        " marks each"
    )


def test_what_is_published_anyway_is_marked_in_every_file(tmp_path: Path, publish: Publish) -> None:
    files = read(publish(campaign(tmp_path, broken=1), "--anyway", "--entity", "Lab"))
    assert "**Not publishable**: 1 of 2 cells" in files["README.md"]
    assert "zero_stage=1, 2 nodes with 1 device (not publishable):" in files["README.md"]
    verdicts = {
        each["cell"]: each["verdict"] for each in json.loads(files["publication.json"])["cells"]
    }
    assert verdicts["zero_stage=0"] == {}
    assert "not_ok" in verdicts["zero_stage=1"]
    for table in ("table.md", "table.csv", "report.html", "table.json"):
        assert "not_ok" in files[f"tables/{table}"], table


def test_the_same_campaign_gives_the_same_bytes(tmp_path: Path, publish: Publish) -> None:
    of = campaign(tmp_path)
    assert publish(of).read_bytes() == publish(of).read_bytes()


def test_nobody_is_made_up(tmp_path: Path, publish: Publish) -> None:
    files = read(publish(campaign(tmp_path)))
    assert "Entity: not said (`--entity`)" in files["README.md"]
    assert json.loads(files["publication.json"])["entity"] == ""


def test_the_readme_is_printed_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["publish", str(campaign(tmp_path).path), "--readme"]) == 0
    assert capsys.readouterr().out.startswith("# m-rack\n")


def test_the_readme_has_what_torchtitan_asks_for(tmp_path: Path, publish: Publish) -> None:
    text = read(publish(campaign(tmp_path), "--entity", "Lab"))["README.md"]
    places = [text.index(each) for each in ("Entity: Lab", "### Models", "### Hardware")]
    places += [text.index(f"### {each}") for each in ("Configuration", "Results")]
    places += [text.index(f"### {each}") for each in ("Versions and Dates", "Notes")]
    assert places == sorted(places)
    assert "--master_addr 10.0.0.1" in text


def test_redaction_holds_in_what_is_made_for_publication(tmp_path: Path, publish: Publish) -> None:
    of = campaign(tmp_path / "runs")
    files = read(publish(of, "--redact", "--entity", "Lab"))
    for name, text in files.items():
        assert "10.0.0.1" not in text, name
    assert "--master_addr address1" in files["README.md"]


def test_no_value_that_is_named_like_a_secret_is_in_the_readme(
    tmp_path: Path, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = campaign(tmp_path / "runs")
    for run in of.path.glob("*/*/*/run.json"):  # as one of before the rule may have it
        content = json.loads(run.read_text())
        content["nodes"][0]["env"]["HF_TOKEN"] = "hf_abcdef"
        run.write_text(json.dumps(content))
    assert "hf_abcdef" not in read(publish(of))["README.md"]


@pytest.mark.parametrize("where", ["cell", "argv", "entity", "inventory", "cpu"])
def test_hostile_text_is_text_in_every_file(tmp_path: Path, publish: Publish, where: str) -> None:
    of = campaign(tmp_path / "runs")
    settings = json.loads((of.path / "campaign.json").read_text())
    for run in of.path.glob("*/*/*/run.json"):
        content = json.loads(run.read_text())
        if where == "argv":
            content["nodes"][0]["argv"].append(HOSTILE)
        run.write_text(json.dumps(content))
    if where == "cell":
        settings["cells"][0]["name"] = HOSTILE.replace("\x1b", "")
    if where == "cpu":
        node = of.path / "inspect" / "n1.json"
        node.write_text(json.dumps({**facts("n1"), "cpu": HOSTILE}))
    (of.path / "campaign.json").write_text(json.dumps(settings))
    words = ["--entity", HOSTILE] if where == "entity" else []
    files = read(publish(of, *words, "--anyway"))
    for name in ("README.md", "publication.json"):
        text = files.get(name, "")
        assert "\x1b" not in text, name
    outside, inside = [], False
    for line in files["README.md"].splitlines():
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            outside.append(line)
    assert not inside
    assert "<script>" not in "\n".join(outside)
    assert "[a](http" not in "\n".join(outside)


def test_a_block_of_code_is_ended_by_nothing_in_it() -> None:
    assert fenced("a\n````\nb").splitlines()[0] == "`````"


def test_packages_are_those_of_the_installation_that_ran_or_none(tmp_path: Path) -> None:
    of = campaign(tmp_path)
    found = installed(of.settings, of.inspections())
    assert [(pin.system, pin.name) for pin in found] == [("torch_gpt", PIN)]
    assert dict(found[0].lock.packages) == {"torch": "2.13.0", "numpy": "2.4.6"}
    other = env(
        systems={
            f"torch_gpt/{PIN}": {"torch": None, "identity": {"commit": "x"}, "lock": {"a": "1"}}
        }
    )
    older = installed(of.settings, {"n1": Inspected(files={"env": other})})
    assert older[0].lock.missing == environments.OLDER
    for name, version in (("-r http://x", "1"), ("a", "1 --index-url=http://x"), ("a\nb", "1")):
        lock = {f"torch_gpt/{PIN}": {"torch": None, "identity": {}, "lock": {name: version}}}
        odd = installed(
            replace(of.settings, environment=None),
            {"n1": Inspected(files={"env": env(systems=lock)})},
        )
        assert odd[0].lock.missing in (environments.ODD, environments.UNREAD)
        assert not odd[0].lock.packages
    none = installed(of.settings, {"n1": Inspected()})
    assert none[0].lock.missing == environments.UNREAD


def test_patches_and_pins_of_a_system_are_in_the_bundle(tmp_path: Path, publish: Publish) -> None:
    of = campaign(tmp_path / "runs")
    settings = json.loads((of.path / "campaign.json").read_text())
    for cell in settings["cells"]:
        cell["system"], cell["pin"] = "megatron_lm", "v1.1.5"
    (of.path / "campaign.json").write_text(json.dumps(settings))
    found = installed(of.settings, of.inspections())
    assert "patches/annealing-lr.patch" in found[0].patches
    assert "constraints/v1.1.5.txt" in found[0].patches
    assert found[0].other.startswith("not all patches")
    assert "pin.yml" in dict(environments.texts(found[0]))


def test_an_unknown_pin_is_said_and_one_that_leads_out_refused(tmp_path: Path) -> None:
    of = campaign(tmp_path)
    settings = of.settings
    path = of.path / "campaign.json"
    content = json.loads(path.read_text())
    content["cells"][0]["pin"] = "of-nobody"
    path.write_text(json.dumps(content))
    found = {pin.name: pin for pin in installed(of.settings, {})}
    assert found["of-nobody"].literals is None
    assert "does not have" in found["of-nobody"].other
    assert settings.cells[0].pin == PIN
    content["cells"][0]["pin"] = ".."
    path.write_text(json.dumps(content))
    assert main(["publish", str(of.path), "--anyway"]) == 2
