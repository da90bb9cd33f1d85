"""What the runner reads of an inventory, what it refuses, and where the playbooks must agree."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from runner.base import paths
from runner.base.errors import UserError
from runner.inventory.inventory import load_inventory, parse_inventory, refuse_unedited
from runner.terms.cluster import Cluster

PATH = Path("inventory/test")
BASE: Mapping[str, Any] = {"cluster_root": "/opt/tb", "cluster_devices_per_node": 2}


def listed(*hosts: str, each: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """What `ansible-inventory --list` prints; `more` is variables of single hosts."""
    common = {**BASE, **(each or {})}
    variables = {host: {**common, **more.get(host, {})} for host in hosts}
    return {"_meta": {"hostvars": variables}, "nodes": {"hosts": list(hosts)}}


def parse(data: Mapping[str, Any]) -> Cluster:
    return parse_inventory(data, PATH)


def refusal(data: Mapping[str, Any]) -> str:
    with pytest.raises(UserError) as caught:
        parse(data)
    said = str(caught.value)
    assert "\n" not in said
    return said


def changed(**variables: Any) -> dict[str, Any]:
    return listed("a", each=variables)


def test_hosts_of_child_groups_follow_and_none_comes_twice() -> None:
    data = listed("m", "z", "a", "y")
    data["nodes"] = {"hosts": ["m"], "children": ["racks", "more"]}
    data["racks"] = {"hosts": ["z", "m"], "children": ["inner"]}
    data["inner"] = {"hosts": ["a"]}
    data["more"] = {"hosts": ["a", "y"]}
    assert [node.host for node in parse(data).nodes] == ["m", "z", "a", "y"]


def test_what_is_not_set_has_a_default() -> None:
    found = parse(listed("a"))
    assert (found.name, found.device, found.env) == ("test", "cpu", {})
    assert (found.device_memory_mib, found.lost_contact_s) == (None, 30.0)
    node = found.nodes[0]
    assert (node.address, node.devices, node.root) == ("a", 2, PurePosixPath("/opt/tb"))


@pytest.mark.parametrize(
    ("variables", "address"),
    [
        ({}, "a"),
        ({"ansible_host": "10.0.0.7"}, "10.0.0.7"),
        ({"ansible_host": "10.0.0.7", "cluster_address": "192.168.0.7"}, "192.168.0.7"),
        ({"ansible_host": None, "cluster_address": None}, "a"),
        ({"ansible_connection": "local", "ansible_host": "x"}, "127.0.0.1"),
        ({"ansible_connection": "local", "cluster_address": "::1"}, "::1"),
    ],
)
def test_the_address_for_rendezvous(variables: dict[str, Any], address: str) -> None:
    assert parse(changed(**variables)).nodes[0].address == address


def test_keys_for_the_whole_cluster_are_read() -> None:
    found = parse(
        changed(
            cluster_device="cuda",
            cluster_env={"NCCL_SOCKET_IFNAME": "eth0", "N": 1},
            cluster_device_memory_mib=81920,
            cluster_lost_contact_s=4,
            command_pins={"mine": {"python": "3.11"}, "again": {}},
        )
    )
    assert found.command_pins == ("again", "mine")
    assert (found.device, found.env) == ("cuda", {"NCCL_SOCKET_IFNAME": "eth0", "N": "1"})
    assert (found.device_memory_mib, found.lost_contact_s) == (81920, 4.0)


def test_cann_is_where_the_role_npu_looks_for_it() -> None:
    defaults = yaml.safe_load((paths.PROJECT / "roles/npu/defaults/main.yml").read_text())
    assert parse(changed(cluster_device_memory_mib=0)).device_memory_mib is None
    assert parse(listed("a")).cann_home == defaults["npu_cann_home"]
    assert parse(changed(npu_cann_home="/data/Ascend/nnae")).cann_home == "/data/Ascend/nnae"


def test_an_address_that_is_still_to_be_edited_is_refused_before_nodes_are_asked() -> None:
    refuse_unedited(parse(listed("a")))
    unedited = parse(listed("a", "b", b={"ansible_host": "EDIT-ME"}))
    with pytest.raises(UserError) as caught:
        refuse_unedited(unedited)
    assert str(caught.value) == (
        "the address of b is still EDIT-ME; write it into ansible_host in inventory/test/hosts.yml"
    )


def test_other_variables_are_neither_read_nor_judged() -> None:
    found = parse(changed(ansible_password="{{ vault }}", my_own="{{ x }}"))
    assert "vault" not in repr(found)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"_meta": {"hostvars": {}}}, ["no hosts in a group called nodes", "inventory/local"]),
        (changed(cluster_devises_per_node=1), ["'cluster_devises_per_node'", "did you mean"]),
        (changed(cluster_root="{{ home }}/tb"), ["cluster_root of a is a template", "plain value"]),
        (changed(cluster_env={"A": "{{ x }}"}), ["cluster_env of a is a template"]),
        (changed(cluster_address="{% if x %}1{% endif %}"), ["cluster_address of a is a template"]),
        (changed(ansible_host="{{ x }}"), ["ansible_host of a is a template"]),
        (changed(cluster_root=None), ["cluster_root of a is not set", "/opt/trainbench"]),
        (changed(cluster_root="tb"), ["'tb'", "on a remote node it must be absolute"]),
        (changed(cluster_device="gpu"), ["cluster_device is 'gpu'", "cpu, cuda, npu"]),
        (changed(cluster_devices_per_node=0), ["is 0", "at least 1"]),
        (changed(cluster_devices_per_node="2"), ["is '2'", "a whole number"]),
        (changed(cluster_devices_per_node=True), ["is True", "a whole number"]),
        (changed(cluster_lost_contact_s=2), ["cluster_lost_contact_s is 2", "3 or more"]),
        (changed(cluster_lost_contact_s="9"), ["cluster_lost_contact_s is '9'", "3 or more"]),
        (changed(cluster_lost_contact_s=float("nan")), ["is nan", "it must be"]),
        (changed(cluster_lost_contact_s=1e300), ["is 1e+300", "at most 86400"]),
        (changed(cluster_devices_per_node=10**12), ["is 1000000000000", "at most 100000"]),
        (changed(ansible_host="10.0.0.1 -oProxyCommand=x"), ["the address of a is"]),
        (changed(cluster_address="\x1b[2J"), ["cluster_address of a", "control characters"]),
        (changed(cluster_root="/opt/\x1b[2J"), ["cluster_root of a", "control characters"]),
        (
            changed(cluster_env={"HF_TOKEN$(touch /tmp/x)": "x"}),
            ["'HF_TOKEN$(touch /tmp/x)' is not a variable's name"],
        ),
        (changed(cluster_switch=7), ["cluster_switch of a is 7", "quotes if it is a number"]),
        (changed(cluster_switch="s" * 300), ["cluster_switch of a is", "a switch's name"]),
        (changed(cluster_device_memory_mib="80 GB"), ["is '80 GB'", "a number"]),
        (changed(npu_cann_home="~/Ascend"), ["npu_cann_home is '~/Ascend'", "absolute"]),
        (changed(npu_cann_home="{{ x }}/cann"), ["npu_cann_home of a is a template"]),
        (changed(cluster_root_shared="yes"), ["cluster_root_shared is 'yes'", "true or false"]),
        (changed(cluster_env=["A=1"]), ["cluster_env must be a mapping"]),
        (changed(cluster_env={"A": True}), ["cluster_env: A is true, not text", "quote it"]),
        (changed(cluster_env={"A-B": "x"}), ["'A-B' is not a variable's name"]),
        (changed(command_pins=["p"]), ["command_pins must map names"]),
        (changed(command_pins={"../p": {}}), ["a name in command_pins is '../p'"]),
        (changed(command_pins={"p": {"cuda": "{{ x }}"}}), ["command_pins of a is a template"]),
    ],
)
def test_a_bad_inventory_is_refused_by_name(data: Mapping[str, Any], words: Sequence[str]) -> None:
    said = refusal(data)
    assert said.count("inventory/test") >= 1
    for word in words:
        assert word in said


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cluster_device", "cuda"),
        ("cluster_env", {"A": "1"}),
        ("cluster_root_shared", True),
        ("cluster_lost_contact_s", 20),
        ("cluster_device_memory_mib", 1000),
        ("npu_cann_home", "/data/Ascend/nnae"),
        ("command_pins", {"p": {}}),
    ],
)
def test_what_holds_for_the_whole_cluster_must_not_differ(key: str, value: Any) -> None:
    said = refusal(listed("a", "b", b={key: value}))
    assert f"{key} differs between a and b" in said
    assert "group_vars/all" in said


def test_roots_and_device_counts_may_differ_between_nodes() -> None:
    found = parse(listed("a", "b", b={"cluster_root": "/data", "cluster_devices_per_node": 8}))
    assert [(str(node.root), node.devices) for node in found.nodes] == [
        ("/opt/tb", 2),
        ("/data", 8),
    ]


def test_a_shared_root_is_one_folder_on_all_nodes() -> None:
    assert not parse(listed("a")).root_shared
    shared = {"cluster_root_shared": True}
    assert parse(listed("a", "b", a=shared, b=shared)).root_shared
    said = refusal(listed("a", "b", a=shared, b={**shared, "cluster_root": "/data"}))
    assert "cluster_root differs between a and b" in said
    assert "at one path" in said


@pytest.mark.parametrize(
    "change",
    [
        {"cluster_address": "x"},
        {"cluster_root": "/x"},
        {"cluster_devices_per_node": 3},
        {"cluster_device": "cuda"},
        {"cluster_env": {"A": "1"}},
        {"cluster_root_shared": True},
        {"npu_cann_home": "/data/Ascend/nnae"},
    ],
)
def test_the_digest_changes_with_what_a_figure_depends_on(change: dict[str, Any]) -> None:
    assert parse(changed(**change)).digest != parse(listed("a")).digest
    assert parse(listed("a", "b")).digest != parse(listed("b", "a")).digest
    assert parse(changed(cluster_lost_contact_s=20)).digest == parse(listed("a")).digest


# --- with the real ansible-inventory --------------------------------------------------------------


def write(folder: Path, hosts: str, **variables: Any) -> Path:
    (folder / "group_vars" / "all").mkdir(parents=True)
    (folder / "hosts.yml").write_text(hosts)
    (folder / "group_vars" / "all" / "cluster.yml").write_text(json.dumps(variables))
    return folder


def test_a_real_inventory_with_child_groups(tmp_path: Path) -> None:
    found = load_inventory(
        write(
            tmp_path / "rack",
            "nodes:\n"
            "  hosts: {m9: {}, m10: {}}\n"
            "  children:\n"
            "    zeta: {hosts: {z2: {ansible_host: 10.0.0.2}, z1: {}}}\n"
            "    alpha: {hosts: {z1: {}, a1: {}}}\n",
            **BASE,
        )
    )
    assert found.name == "rack"
    assert [node.host for node in found.nodes] == ["m9", "m10", "z2", "z1", "a1"]
    assert found.nodes[2].address == "10.0.0.2"


def test_a_single_file_is_an_inventory_and_hosts_is_named_after_its_folder(tmp_path: Path) -> None:
    text = f"nodes: {{hosts: {{a: {json.dumps(dict(BASE))}}}}}"
    (tmp_path / "rack").mkdir()
    for name, called in (("small.yml", "small"), ("rack/hosts.yml", "rack")):
        (tmp_path / name).write_text(text)
        assert load_inventory(tmp_path / name).name == called


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("hosts.yml", "nodes:\n\thosts: {}", ["hosts.yml:2: YAML does not allow a tab"]),
        ("group_vars/all/more.yml", "a: 1\nb: [", ["more.yml:", "YAML parsing failed"]),
    ],
)
def test_a_file_that_is_no_yaml_is_named_with_its_line(
    tmp_path: Path, file: str, text: str, words: Sequence[str]
) -> None:
    folder = write(tmp_path / "rack", "nodes: {hosts: {a: {}}}", **BASE)
    (folder / file).write_text(text)
    with pytest.raises(UserError) as caught:
        load_inventory(folder)
    for word in ("cannot be read", *words):
        assert word in str(caught.value)


def test_variables_that_are_executable_are_looked_at_before_ansible_reads_them(
    tmp_path: Path,
) -> None:
    """Ansible runs no file of group_vars, and an alias bomb in one would keep it for hours."""
    folder = write(tmp_path / "rack", "nodes: {hosts: {a: {}}}", **BASE)
    bomb = "a0: &a0 [x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 9))
    (folder / "group_vars" / "nodes").write_text(bomb)
    (folder / "group_vars" / "nodes").chmod(0o755)
    with pytest.raises(UserError, match=r"group_vars/nodes: it nests too deeply, or holds too muc"):
        load_inventory(folder)


def test_a_wrong_path_names_the_nearest_inventory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for typed in ("inventory/locl", "local", "somewhere/local"):
        with pytest.raises(UserError, match=rf"{typed} \(did you mean inventory/local\?\)"):
            load_inventory(Path(typed))
    monkeypatch.chdir(tmp_path)  # from where what is shipped is named by the same words
    (tmp_path / "inventory" / "mine").mkdir(parents=True)
    (tmp_path / "inventory" / "mine" / "hosts.yml").touch()
    with pytest.raises(UserError, match=r"did you mean inventory/local\?"):
        load_inventory(Path("local"))
    with pytest.raises(UserError, match=r"did you mean inventory/mine\?"):
        load_inventory(Path("mnie"))
    with pytest.raises(UserError, match=r"no inventory zzz; name a folder such as inventory/local"):
        load_inventory(Path("zzz"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="cannot be read: Completely failed to parse"):
        load_inventory(tmp_path / "empty")


# --- one rule, two readers ------------------------------------------------------------------------


def from_playbooks(inventory: Path, host: str, *names: str) -> list[str]:
    """Variables as every playbook sees them (playbooks/group_vars/all.yml), and roles/verify."""
    ran = subprocess.run(
        [
            *("ansible", host, "-i", str(inventory), "--playbook-dir", "playbooks"),
            *("-c", "local", "-m", "ansible.builtin.debug"),
            *("-e", "@roles/verify/vars/main.yml"),
            *("-a", f"msg={{{{ [{', '.join(names)}] }}}}"),
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=paths.PROJECT,
        env={**os.environ, "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"},
    )
    found: list[str] = json.loads(ran.stdout.split("=>", 1)[1])["msg"]
    return found


@pytest.mark.parametrize(
    ("root", "connection"), [("/opt/tb", "ssh"), ("/opt/tb", "local"), (".t b/x", "local")]
)
def test_playbooks_and_runner_agree_on_where_things_lie(
    tmp_path: Path, root: str, connection: str
) -> None:
    folder = write(
        tmp_path / "rack",
        "nodes: {hosts: {a: {}}}",
        cluster_root=root,
        cluster_devices_per_node=1,
        ansible_connection=connection,
    )
    node = load_inventory(folder).nodes[0]
    assert from_playbooks(folder, "a", "node_root", "systems_root", "datasets_root") == [
        str(node.root),
        str(paths.system_home(node.root, "s", "p").parents[1]),
        str(paths.dataset_home(node.root, "d").parent),
    ]


def test_playbooks_and_runner_agree_on_where_checkups_lie(tmp_path: Path) -> None:
    """Two inventories of one name, outside of this checkout, have a folder each."""
    folders = [
        write(tmp_path / place / "rack", "nodes: {hosts: {a: {}}}", **BASE) for place in "xy"
    ]
    labels = [load_inventory(folder).label for folder in folders]
    assert len(set(labels)) == 2
    assert all(label.startswith("rack-") for label in labels)
    assert [from_playbooks(folder, "a", "__verify_name") for folder in folders] == [
        [label] for label in labels
    ]
    local = paths.DEFAULT_INVENTORY
    assert [load_inventory(local).label] == from_playbooks(local, "localhost", "__verify_name")
    assert load_inventory(local).label == "local"


@pytest.mark.parametrize(
    ("key", "called"),
    [
        *((f"cluster_{name}",) * 2 for name in ("devices_per_node", "device", "root")),
        ("cluster_address", "the address of a"),
        ("cluster_env", "cluster_env: x is a mapping"),
    ],
)
def test_a_mapping_where_a_value_belongs_is_not_shown(key: str, called: str) -> None:
    """It may be cluster_env, one line too far to the right."""
    secret = {"HF_TOKEN": "hf_0123456789"}
    value = {"x": secret} if key == "cluster_env" else secret
    facts = {"cluster_root": "/opt/tb", "cluster_devices_per_node": 2, key: value}
    listed = {"nodes": {"hosts": ["a"]}, "_meta": {"hostvars": {"a": facts}}}
    with pytest.raises(UserError) as caught:
        parse_inventory(listed, Path("inventory/x"))
    assert called in str(caught.value)
    assert "hf_0123456789" not in str(caught.value)
