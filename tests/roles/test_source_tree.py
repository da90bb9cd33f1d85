"""roles/source_tree on real nodes, with real git from a git daemon on one of them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fixtures import Group, RealNodes
from tests.roles.play import Ran, play

pytestmark = pytest.mark.cluster
REPOSITORY = "https://github.com/example/trainer"
BASE = "/opt/trainbench-tree"
PLAYBOOK = """
- hosts: nodes
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: source_tree
        tasks_from: "{{ entry }}"
    - ansible.builtin.debug:
        msg: "tree={{ source_tree_identity.tree | default('none') }}"
      when: entry == 'main'
"""
# Two commits; the second is the tip, so that the first is one that nobody advertises.
MAKE_REPOSITORY = f"""
set -e
mkdir -p {BASE}/git/trainer && cd {BASE}/git/trainer
git init -q && git config user.email a@example.org && git config user.name A
printf 'a\\r\\nb\\r\\n' >dos.txt && git add dos.txt
# from here on git would take these line ends for an edit
printf '*.txt text\\n' >.gitattributes
printf 'one\\ntwo\\nthree\\n' >setup.py && printf '*.o\\n' >.gitignore
git add .gitattributes .gitignore setup.py && git commit -qm first && git rev-parse HEAD
echo four >>setup.py && git add setup.py && git commit -qm second && git rev-parse HEAD
"""


def patch(old: str, new: str) -> str:
    return "--- a/setup.py\n+++ b/setup.py\n@@ -1,3 +1,3 @@\n" + "".join(
        f" {line}\n" if line != old else f"-{old}\n+{new}\n" for line in LINES
    )


LINES = ("one", "two", "three")
ADDS_A_FILE = "--- /dev/null\n+++ b/added.py\n@@ -0,0 +1 @@\n+added = 1\n"


@dataclass
class Site:
    """Nodes, a repository that one serves, and the role's variables."""

    group: Group
    folder: Path
    first: str
    second: str
    variables: dict[str, Any] = field(default_factory=dict)

    def run(self, *words: str, entry: str = "main", **changed: Any) -> Ran:
        playbook = self.folder / "tree.yml"
        playbook.write_text(PLAYBOOK)
        extra = json.dumps({**self.variables, "entry": entry, **changed})
        return play(self.group.inventory, "-e", extra, *words, playbook=playbook)

    def patches(self, **texts: str) -> list[str]:
        paths = [self.folder / f"{name}.patch" for name in texts]
        for path, text in zip(paths, texts.values(), strict=True):
            path.write_text(text)
        return [str(path) for path in paths]


@pytest.fixture
def site(real_nodes: RealNodes, tmp_path: Path) -> Iterator[Site]:
    group = real_nodes(2, variables={"cluster_root": BASE})
    server = group.nodes[0]
    made = server.exec(["sh", "-c", MAKE_REPOSITORY], check=True)
    daemon = server.popen(
        ["git", "daemon", "--export-all", f"--base-path={BASE}/git", "--reuseaddr"]
    )
    site = Site(group, tmp_path, *made.stdout.split())
    site.variables = {
        "source_tree_path": f"{BASE}/src",
        "source_tree_repository": REPOSITORY,
        "source_tree_commit": site.first,
        "source_tree_version": "trainer 1.0",
        "source_tree_patches": site.patches(two=patch("two", "TWO"), file=ADDS_A_FILE),
        "site_mirrors": {
            "git": {
                "https://github.com/": "git://192.0.2.1/",
                "https://github.com/example/": f"git://{server.address}/",
            }
        },
    }
    yield site
    daemon.kill()
    daemon.wait()
    server.kill_processes()  # what the daemon started for a client
    for node in group.nodes:
        node.exec(["rm", "-rf", BASE], check=True)


@pytest.mark.nightly("setup")
def test_cloned_from_the_mirror_patched_once_and_kept(site: Site) -> None:
    nodes = site.group.nodes
    checked = site.run("--check")
    assert checked.changed() == {node.hostname: 1 for node in nodes}, checked.out
    assert [node.exec(["test", "-e", f"{BASE}/src"]).returncode for node in nodes] == [1, 1]

    made = site.run()
    assert made.rc == 0, made.out
    for node in nodes:
        assert node.read(f"{BASE}/src/setup.py") == "one\nTWO\nthree\n"
        assert node.read(f"{BASE}/src/added.py") == "added = 1\n"
        head = node.exec(
            ["git", "-C", f"{BASE}/src", "rev-parse", "HEAD", "--is-shallow-repository"]
        )
        assert head.stdout.split() == [site.first, "true"]
    crlf = nodes[1].exec(["od", "-An", "-c", f"{BASE}/src/dos.txt"]).stdout.split()
    assert crlf == ["a", "\\r", "\\n", "b", "\\r", "\\n"]
    # What a build leaves is no difference.
    nodes[1].exec(
        ["sh", "-c", f"cd {BASE}/src && touch a.o && mkdir __pycache__ && touch __pycache__/b"]
    )
    again = site.run()
    assert again.changed() == {node.hostname: 0 for node in nodes}, again.out
    assert site.run(entry="verify").rc == 0

    # Another set of patches, on a tree that nobody touched: put there, the old ones gone.
    other = site.patches(three=patch("three", "THREE"))
    lacking = site.run(entry="verify", source_tree_patches=other)
    assert "has the patches of an earlier setup; run setup" in lacking.out, lacking.out
    moved = site.run(source_tree_patches=other)
    assert moved.changed() == {node.hostname: 1 for node in nodes}, moved.out
    listed = nodes[1].exec(["ls", f"{BASE}/src"]).stdout.split()
    assert listed == ["__pycache__", "a.o", "dos.txt", "setup.py"]
    assert nodes[1].read(f"{BASE}/src/setup.py") == "one\ntwo\nTHREE\n"


def test_what_does_not_match_is_refused_by_name_and_put_right_on_demand(site: Site) -> None:
    first, node = site.group.nodes
    assert site.run().rc == 0
    edit = f"cd {BASE}/src && sed -i s/TWO/2/ setup.py && touch new.py"
    node.exec(["sh", "-c", edit], check=True)
    for refused in (site.run(entry="verify"), site.run()):
        assert refused.recap[first.hostname]["failed"] == 0
        assert refused.recap[node.hostname]["failed"] == 1
        assert (
            f"{BASE}/src is not trainer 1.0 ({site.first[:12]}) with its 2 patches" in refused.out
        )
        assert "setup.py | 2 +-" in refused.out
        assert "new.py" in refused.out
    assert "source_tree_reset=true" in refused.out
    assert node.read(f"{BASE}/src/setup.py") == "one\n2\nthree\n"  # nobody's work is lost
    mended = site.run(source_tree_reset=True)
    assert mended.changed() == {first.hostname: 0, node.hostname: 1}, mended.out
    assert node.read(f"{BASE}/src/setup.py") == "one\nTWO\nthree\n"
    assert site.run(entry="verify").rc == 0

    # The pin moves on: the tree is at the commit of yesterday.
    moved = site.run(source_tree_commit=site.second)
    assert moved.rc != 0
    assert (
        f"{BASE}/src is at commit {site.first}, not at trainer 1.0 ({site.second[:12]})"
        in moved.out
    )
    assert site.run(source_tree_commit=site.second, source_tree_reset=True).rc == 0
    assert node.read(f"{BASE}/src/setup.py") == "one\nTWO\nthree\nfour\n"


@pytest.mark.nightly("setup")
def test_bad_patch_and_bad_commit_leave_nothing_behind(site: Site) -> None:
    bad = site.patches(bad=patch("two", "TWO").replace(" one", " eleven"))
    refused = site.run(source_tree_patches=bad)
    assert refused.rc != 0
    assert f"patch bad.patch does not apply to trainer 1.0 ({site.first[:12]})" in refused.out
    assert "setup.py:1" in refused.out
    absent = site.run(source_tree_commit="0" * 40)
    assert f"has no commit {'0' * 40}" in absent.out
    assert site.group.nodes[1].exec(["ls", "-A", BASE]).stdout == ""
