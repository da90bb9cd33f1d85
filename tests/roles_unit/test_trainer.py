"""roles/trainer's plugins: what a node is asked of its pin sets, and what it is to do."""

from typing import Any

import pytest
import yaml

from plugins.filter.pins import pin_plans
from roles.trainer.action_plugins.pins import (
    compilers,
    environment_site,
    example_lock,
    plan_site,
    questions,
    todo,
)
from roles.trainer.filter_plugins.pins_differing import pins_differing
from runner.base.paths import PROJECT

HOME = "/opt/tb/systems/toy/p"
PIN = {"python": "3.8", "source": {"repository": "r", "commit": "5" * 40}, "requirements": ["a==1"]}
APEX = {"version": "22.03", "repository": "r", "commit": "6" * 40, "extensions": ["cpp_ext"]}
VARIABLES = {"trainer_system": "toy", "systems_root": "/opt/tb/systems", "trainer_cuda_homes": {}}


def value(name: str, default: Any = None) -> Any:
    return VARIABLES.get(name, default)


def plan(device: str = "cpu", **more: Any) -> dict[str, Any]:
    site = {**plan_site(value), "device": device}
    return pin_plans({"p": {**PIN, **more}}, ["p"], site, lambda _: "text")[0]


def question(plan: dict[str, Any], **more: Any) -> dict[str, Any]:
    site = {"system": "toy", "script": "", "files": {"train.py": "ab"}, "tree": {"check": True}}
    env = environment_site(value, "/usr/bin/python3")
    return questions([plan], {**site, "env": env, **more})[0]


def test_a_question_has_what_the_programs_take() -> None:
    asked = question(plan(apex=APEX))
    assert asked["env"]["path"] == f"{HOME}/env"
    assert asked["env"]["python"] == "3.8"
    assert asked["env"]["interpreter"] == "/usr/bin/python3"
    assert asked["files"] == {f"{HOME}/src/train.py": "ab"}
    assert asked["said"] == {"system": "toy", "left_out": {"apex": "cluster_device is cpu"}}
    assert "files" not in asked["trees"][0]
    assert asked["trees"][0]["check"] is True


def test_compilers_are_those_that_every_run_is_told() -> None:
    secret = {"HF_TOKEN": "{{ lookup('pipe', 'false') }}"}
    assert compilers({"cluster_env": {"CC": "gcc-12", "NCCL_DEBUG": "x", **secret}}) == {
        "CC": "gcc-12"
    }
    assert compilers({"cluster_env": "{{ elsewhere }}"}) == compilers({}) == {}


def test_the_trainer_asks_of_an_environment_what_python_env_asks() -> None:
    """Two callers of one program: what the one looks at is what the other brings there."""
    path = PROJECT / "roles" / "python_env" / "vars" / "main.yml"
    direct = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert question(plan())["env"].keys() == direct["__python_env_spec"].keys()


def look(
    todo: list[dict[str, str]], python: str = "3.8.10", image: str = "", **more: Any
) -> dict[str, Any]:
    lines = ["numpy==1.22.0", "pip==23.0", "x==1 @ file:///a", "zipp==3.1"]
    env = {"make": "", "todo": todo, "python": python, "lines": lines}
    env |= {"image": image} if image else {}
    pin = {"env": env, "trees": [], "files": [], **more}
    return {"system": "toy", "pins": {"p": pin}, "differing": []}


LACKING = [{"what": "install", "name": "torch"}, {"what": "lock"}]


def test_a_new_node_gets_what_a_whole_one_has() -> None:
    lacking = look(LACKING)
    assert example_lock([lacking, look([])], "p", "3.8.18") == ["numpy==1.22.0", "zipp==3.1"]
    assert example_lock([lacking], "p", "3.8.18") == []
    assert example_lock([look([])], "p", "3.11.2") == []


def work(mine: dict[str, Any], *others: dict[str, Any], device: str = "cpu", **more: Any) -> Any:
    wanted = plan(device, **more)
    return todo(wanted, question(wanted), [mine, *others], mine["pins"]["p"])


def test_a_node_that_has_all_has_nothing_to_do() -> None:
    found = work(look([]), look(LACKING))
    parts = ("trees", "files", "environment", "image", "lacking", "apex")
    assert {name: bool(found[name]) for name in parts} == dict.fromkeys(parts, False)


def test_a_node_does_what_it_lacks_as_the_others_have_it() -> None:
    found = work(look(LACKING, trees=["source"], files=["/x/train.py"]), look([]))
    assert [tree["path"] for tree in found["trees"]] == [f"{HOME}/src"]
    assert "patches" not in found["trees"][0]
    assert (found["files"], found["environment"]) == (True, True)
    assert found["constraints"] == ["numpy==1.22.0", "zipp==3.1"]
    lacking = look([])
    lacking["pins"]["p"]["env"]["make"] = "venv"
    assert work(lacking)["environment"] is True


def test_a_wheel_without_a_stated_checksum_is_to_be_the_one_that_another_node_has() -> None:
    url = "https://x.example/Toy_x-1.0-py3-none-any.whl"
    has = look([])
    has["pins"]["p"]["env"]["lines"] = [
        "toy-x==1.1 @ file:///w/a.whl#sha256=" + "1" * 64,
        "toy-x==1.0 @ file:///w/b.whl#sha256=" + "2" * 64,
        "toy-x==1.0 @ file:///w/c.whl#sha256=--no-index",
    ]

    def wheels(*nodes: dict[str, Any], **more: Any) -> list[Any]:
        steps = work(look(LACKING), *nodes, wheels=[{"url": url, **more}])["plan"]["steps"]
        return [step["wheel"].get("recorded") for step in steps if "wheel" in step]

    assert wheels(has) == ["2" * 64]
    assert wheels(look([])) == [""]
    assert wheels(has, sha256="3" * 64) == [None]  # the pin set's own counts


def test_all_nodes_come_to_the_role_that_builds_what_one_lacks() -> None:
    lacks = look([{"what": "install", "name": "apex"}])
    found = [work(mine, lacks, device="cuda", apex=APEX) for mine in (look([]), lacks)]
    assert [each["built"] for each in found] == [["apex"], ["apex"]]
    assert [each["lacking"] for each in found] == [True, True]
    assert [each["apex"] for each in found] == [False, True]
    assert work(look([]), look(LACKING), device="cuda", apex=APEX)["lacking"] is False


def test_of_an_image_the_role_of_images_is_told() -> None:
    image = {"engine": "podman", "device": "cpu", "files": {}, "archives": "/i", "shared": False}
    site = {"system": "toy", "root": "/opt", "roles": "", "device": "cpu"}
    wanted = pin_plans({"p": {"image": {"base": "b"}}}, ["p"], site)[0]
    mine = look([], image="ab")["pins"]["p"]
    mine["env"]["make"] = "image"
    found = todo(wanted, question(wanted, image=image), [], mine)
    assert found["image"]["archive"] == "/i/toy-p"
    assert found["environment"] is False


@pytest.mark.parametrize(
    ("answers", "differing"),
    [
        ([look([]), look([])], []),
        ([look([]), {**look([]), "differing": ["p"]}], ["p"]),
        ([look([], image="a"), look([], image="a")], []),
        ([look([], image="a"), look([], image="b")], ["p"]),
        ([look([]), None], []),  # a node that was not asked
        ([look([]), {**look([]), "system": "other", "differing": ["q"]}], []),
    ],
)
def test_what_differs_on_any_node_is_brought_to_all(answers: list[Any], differing: Any) -> None:
    hostvars = {
        f"n{number}": {"__trainer_looked": {"answer": answer}} if answer else {}
        for number, answer in enumerate(answers)
    }
    assert pins_differing(hostvars, hostvars, "toy") == differing
