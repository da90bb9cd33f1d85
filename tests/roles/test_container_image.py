"""roles/container_image on real nodes: built on one, given to the other, with a stand-in engine."""

import json
from pathlib import Path

import pytest

from tests.cluster.fixtures import RealNodes
from tests.roles.play import play

pytestmark = pytest.mark.cluster
ROOT = "/opt/trainbench-image"
HOME = f"{ROOT}/systems/toy/p"
# Its one image is a line in a file, and 20 MB beside it where it is saved.
ENGINE = f"""#!/bin/sh
have={ROOT}/engine-has
case "$1" in
  images) cat $have 2>/dev/null ;;
  build) head -c 32 /dev/urandom | sha256sum | cut -d' ' -f1 >$have ;;
  save) cat $have >"$3"; head -c 20000000 /dev/zero >>"$3" ;;
  load) head -n 1 "$3" >$have ;;
  run) case "$*" in *--version) echo Python 3.11.2 ;; *) echo torch==2.13.0 ;; esac ;;
esac
exit 0
"""
SPEC = {
    **{"engine": f"{ROOT}/engine", "image": "localhost/trainbench/toy:p", "base": "debian:12"},
    **{"requirements": [["torch==2.13.0"]], "files": {"Containerfile": "FROM x\n"}, "home": HOME},
    **{"archive": f"{ROOT}/systems/.images/toy-p", "mirrors": {}, "index": "", "extra_index": ""},
    **{"find_links": "", "file": "", "made": [], "supervised": False, "build": []},
}
PLAY = """
- hosts: nodes
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: container_image
      vars:
        container_image_spec: {spec}
"""


@pytest.mark.nightly("setup", by_day="test_dataset gives files to nodes, too")
def test_built_on_one_node_and_given_to_the_other(real_nodes: RealNodes, tmp_path: Path) -> None:
    group = real_nodes(2, variables={"cluster_root": ROOT, "cluster_systems": []})
    for node in group.nodes:
        argv = ["sh", "-c", f"mkdir -p {HOME} && cat >{ROOT}/engine && chmod 700 {ROOT}/engine"]
        node.exec(argv, input=ENGINE, check=True)
    playbook = tmp_path / "image.yml"
    playbook.write_text(PLAY.format(spec=json.dumps(SPEC)))
    made = play(group.inventory, playbook=playbook)
    assert made.rc == 0, made.out
    first, second = (json.loads(node.read(f"{HOME}/image.json")) for node in group.nodes)
    assert first == second
    assert first["lines"] == ["torch==2.13.0"]
    assert [node.read(f"{ROOT}/engine-has").strip() for node in group.nodes] == [first["image"]] * 2
    left = [node.exec(["ls", "-A", f"{ROOT}/systems"]).stdout.split() for node in group.nodes]
    assert left == [["toy"], ["toy"]]
    assert set(play(group.inventory, playbook=playbook).changed().values()) == {0}
