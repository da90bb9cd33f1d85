"""Look at the datasets of a node, and say of what all nodes have what each is to do.

datasets: {step: look}      ask the node for each dataset's fault, identity and beginning
datasets: {step: verify}    the same; one that is not whole is a failure
datasets: {step: plan}      who makes, gives and gets what, of all that the nodes said
datasets: {step: make}      on the node that makes: the tools that it needs, and its arguments
datasets: {step: share}     the plan again, and what the nodes that share are told
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from plugins import answers, datasets
from plugins.filter.mirrors import mirrored
from plugins.node_action import NodeAction
from plugins.sharing import shared

LOOKED = "__dataset_looked"  # as tasks/ register what a node said
CATALOGUE = Path(__file__).resolve().parents[1] / "vars" / "catalogue.yml"
GIVERS = 4  # nodes that give one dataset: each gives on to others, so more would only wait


class ActionModule(NodeAction):
    """`datasets:` with a `step`, as the file's first lines say."""

    def act(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        looked = self.answers(LOOKED)
        names = [str(name) for name in self.value("dataset_names")]
        if arguments["step"] == "plan":
            return {"changed": False, **plan(looked, names)}
        if arguments["step"] == "share":
            planned = plan(looked, names)
            share_plan = {
                **shared(planned, self.addresses(LOOKED)),
                "recorded": datasets.recorded(self._described()),
            }
            return {"changed": False, **planned, "shared": share_plan}
        if arguments["step"] == "make":
            mine = looked[self.value("inventory_hostname")]
            return {"changed": False, **self._making(mine, plan(looked, names)["make"])}
        spec = {"root": self.value("datasets_root"), "datasets": self._described()}
        result = self.result(
            f"dataset.inspection:{arguments['step']}", spec, answers.datasets(names)
        )
        return {**result, "address": self.address()}

    def _described(self) -> datasets.Described:
        corpus = {
            key: int(self.value(f"dataset_{key}")) for key in ("vocab_size", "max_bytes", "seed")
        }
        names, own_entries, preprocess = (
            self.value(f"dataset_{key}") for key in ("names", "own", "preprocess")
        )
        try:
            return datasets.entries(_catalogue(), names, own_entries, corpus, preprocess)
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from None

    def _making(self, mine: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
        described = self._described()
        entries = {name: described[name] for name in names if described[name]}
        if undescribed := [name for name in names if name not in entries]:
            there = [*_catalogue()["dataset_catalogue"], *self.value("dataset_own")]
            raise AnsibleActionFail(
                f"no node has {', '.join(undescribed)}, and the catalogue does not say where it is"
                f" from; there are {', '.join(there)}; describe your own in dataset_own, or put its"
                f" folder into {self.value('datasets_root')} of one node"
            )
        tools = f"{self.value('datasets_root')}/.tools/env"
        python = ".".join(map(str, mine["python"]))
        needs = datasets.needs(entries)
        literals = {name: self.value(name) for name in datasets.PINS}
        return {
            "tools": tools,
            "pins": datasets.tools(needs, python, literals) if needs else [],
            "spec": {
                "root": self.value("datasets_root"),
                "datasets": entries,
                "sources": {
                    address: mirrored(address, "data", self.value("site_mirrors", {}))
                    for address in datasets.addresses(entries)
                },
                "python": f"{tools}/bin/python3",
                "systems": self.value("systems_root"),
            },
        }


def _catalogue() -> dict[str, Any]:
    catalogue: dict[str, Any] = yaml.safe_load(CATALOGUE.read_text(encoding="utf-8"))
    return catalogue


def plan(looked: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> dict[str, Any]:
    """Return who makes, gives and gets what, from what each node said of itself.

    make: names that no node has, maker: the node to make them (the one that has begun most of
    them, else the first); gives and gets: node to names. The first node that has a dataset says
    which one is meant, where two differ.
    """
    make: list[str] = []
    identities: dict[str, str] = {}
    gives: dict[str, list[str]] = {}
    gets: dict[str, list[str]] = {}
    begun = dict.fromkeys(looked, 0)
    for name in names:
        silent = {"identity": "", "begun": 0}
        answers = {host: has.get("datasets", {}).get(name, silent) for host, has in looked.items()}
        identity = next(
            (answer["identity"] for answer in answers.values() if answer["identity"]), ""
        )
        if not identity:
            make.append(name)
            begun = {host: begun[host] + answers[host]["begun"] for host in looked}
            continue
        identities[name] = identity
        getters = [host for host, answer in answers.items() if answer["identity"] != identity]
        givers = [host for host in answers if host not in getters]
        for host in givers[:GIVERS] if getters else []:
            gives.setdefault(host, []).append(name)
        for host in getters:
            gets.setdefault(host, []).append(name)
    maker = max(begun, key=lambda host: begun[host]) if make else ""
    return {"make": make, "maker": maker, "identity": identities, "gives": gives, "gets": gets}
