"""The machines in the fields of MLPerf's system description: system.json. Pure.

Fields: mlcommons/logging, system_desc_checker.py, which wants each of them, and text. What nobody
told a program of ours stays empty, and `not_known` says why.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from node.facts.kinds import ENVIRONMENT
from node.schema import UnfitError
from runner.publish.publication import Publication
from runner.terms.inspected import ENV, Inspected

FIELDS = (
    *("submitter", "division", "status", "system_name", "number_of_nodes"),
    *("host_processors_per_node", "host_processor_model_name", "host_processor_core_count"),
    *("host_processor_vcpu_count", "host_processor_frequency", "host_processor_caches"),
    *("host_processor_interconnect", "host_memory_capacity", "host_storage_type"),
    *("host_storage_capacity", "host_networking", "host_networking_topology"),
    *("host_memory_configuration", "accelerators_per_node", "accelerator_model_name"),
    *("accelerator_host_interconnect", "accelerator_frequency", "accelerator_on-chip_memories"),
    *("accelerator_memory_configuration", "accelerator_memory_capacity"),
    *("accelerator_interconnect", "accelerator_interconnect_topology", "cooling", "hw_notes"),
    *("framework", "other_software_stack", "operating_system", "sw_notes"),
)
_UNSEEN = "no program of TrainBench asks for it"
_UNSAID = "no node said it: `verify` before bench has them read it"
_OF_PERSON = "a person's to say"
_OF_PEOPLE = ("division", "status", "cooling")
_UNVERIFIED = ("host_networking", "accelerator_frequency", "host_processors_per_node")
NO_DEVICES = "no accelerators"


def system_description(publication: Publication) -> dict[str, Any]:
    """Return the file's content: MLPerf's fields in their order, then `not_known`."""
    known: dict[str, Any] = {
        **_host(publication.nodes),
        **_accelerators(publication),
        "submitter": publication.entity,
        "system_name": publication.settings.inventory,
        "number_of_nodes": str(
            max((len(run.nodes) for run in publication.runs.values()), default=0)
        ),
        "framework": _framework(publication),
        "other_software_stack": _software(publication),
        "sw_notes": _notes(publication),
    }
    content: dict[str, Any] = {name: known.get(name, "") for name in FIELDS}
    missing = {name: _why(name, publication) for name, value in content.items() if not value}
    return {**content, "not_known": missing}


def _why(name: str, publication: Publication) -> str:
    if name in _OF_PEOPLE:
        return _OF_PERSON
    if name == "submitter":
        return "--entity was not given"
    if name.startswith("accelerator") and not _devices(publication):
        return NO_DEVICES
    if name in ("hw_notes", "sw_notes"):
        return "nothing to note"
    return _UNSAID if name in _UNVERIFIED else _UNSEEN


def _env(inspected: Inspected) -> Mapping[str, Any]:
    """Return what `verify` left on a node; nothing where it is not what it should be."""
    try:
        env: Mapping[str, Any] = ENVIRONMENT.check(inspected.files.get(ENV) or {}, "env.json:")
    except UnfitError:
        return {}
    return env


def _each(
    nodes: Mapping[str, Inspected], value: Callable[[Inspected, Mapping[str, Any]], object]
) -> str:
    """Return what all nodes say, or each value that some do; nothing where none does."""
    said = [value(inspected, _env(inspected)) for inspected in nodes.values()]
    return _listed(str(one) for one in said if one not in (None, "", 0))


def _listed(values: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(values))


def _host(nodes: Mapping[str, Inspected]) -> dict[str, str]:
    def cores(_: Inspected, env: Mapping[str, Any]) -> object:
        cpu = env.get("cpu") or {}
        sockets, count = cpu.get("sockets"), cpu.get("cores")
        return count // sockets if sockets and count else None  # of one processor

    def memory(inspected: Inspected, _: Mapping[str, Any]) -> str:
        return f"{inspected.memory_mib / 1024:.0f} GiB" if inspected.memory_mib else ""

    def network(_: Inspected, env: Mapping[str, Any]) -> str:
        found = (env.get("network") or {}).get("interfaces") or {}
        return ", ".join(
            f"{name} {pin['speed_mbit_s']} Mbit/s"
            for name, pin in found.items()
            if pin.get("speed_mbit_s")
        )

    return {
        "host_processors_per_node": _each(nodes, lambda _, e: (e.get("cpu") or {}).get("sockets")),
        "host_processor_model_name": _each(nodes, lambda each, _: each.cpu),
        "host_processor_core_count": _each(nodes, cores),
        "host_processor_vcpu_count": _each(nodes, lambda each, _: each.cpu_count),
        "host_memory_capacity": _each(nodes, memory),
        "host_networking": _each(nodes, network),
        "operating_system": _each(
            nodes, lambda each, _: ", ".join(filter(None, (each.system, each.kernel)))
        ),
    }


def _devices(publication: Publication) -> bool:
    return any(inspected.devices for inspected in publication.nodes.values())


def _accelerators(publication: Publication) -> dict[str, str]:
    nodes = publication.nodes
    if not _devices(publication):
        return {"accelerators_per_node": "0"}

    def told(key: str) -> Callable[[Inspected, Mapping[str, Any]], str]:
        def of(_: Inspected, env: Mapping[str, Any]) -> str:
            devices = (env.get("gpu") or {}).get("devices") or []
            return _listed(str(device[key]) for device in devices if device.get(key))

        return of

    power = _each(nodes, told("power.limit"))
    memory = "{} MiB".format
    return {
        "accelerators_per_node": _each(nodes, lambda each, _: len(each.devices or ())),
        "accelerator_model_name": _each(
            nodes, lambda each, _: _listed(one.name for one in each.devices or ())
        ),
        "accelerator_memory_capacity": _each(
            nodes, lambda each, _: _listed(memory(one.memory_mib) for one in each.devices or ())
        ),
        "accelerator_frequency": _each(nodes, told("clocks.max.sm")),
        "hw_notes": f"power limit {power}" if power else "",
    }


def _framework(publication: Publication) -> str:
    systems: dict[str, None] = {}
    for row in publication.table:
        torch = row.record.environment.get("torch")
        systems[f"{row.record.system}, torch {torch}" if torch else row.record.system] = None
    return "; ".join(systems)


def _software(publication: Publication) -> list[dict[str, str]]:
    """Return drivers, toolkits and each environment's packages."""
    drivers = _each(
        publication.nodes, lambda each, _: _listed(one.driver for one in each.devices or ())
    )
    toolkits = _each(
        publication.nodes,
        lambda _, env: ", ".join(sorted((env.get("cuda_toolkits") or {}).values())),
    )
    machine = {"cuda_driver_version": drivers, "cuda_version": toolkits}
    stack = [{key: value for key, value in machine.items() if value}]
    stack += [{"environment": f"{p.system}/{p.name}", **p.lock.packages} for p in publication.pins]
    return [each for each in stack if each]


def _notes(publication: Publication) -> str:
    notes = [f"measured by TrainBench {publication.settings.trainbench}"]
    if publication.refused:
        count = f"{len(publication.refused)} of {len(publication.table)} cells"
        notes.append(f"{count} are not publishable by its measure (publication.json)")
    return "; ".join(notes)
