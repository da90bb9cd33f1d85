"""node/state: what differs, what is new because of us, what takes it off."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from node.state.compare import MachineState, compare
from node.state.keys import dearmor, fingerprints, key_fault
from node.state.ledger import account, before, undo
from node.state.packages import FORMAT, Package, interrupted, parse_listing, present
from node.state.repositories import configured, sources
from node.state.spec import StateError
from roles.node_state.filter_plugins.node_state import apt_fault
from tests.node import run

needs_dpkg = pytest.mark.skipif(not shutil.which("dpkg-query"), reason="needs dpkg-query")
STATUS = """\
Package: dpkg
Status: install ok installed
Architecture: amd64
Version: 1.21.22

Package: libc6
Status: install ok installed
Architecture: i386
Version: 2.36-9
Provides: libc-dev

Package: gcc
Status: hold ok installed
Architecture: amd64
Version: 4:12.2.0-3
Depends: cpp (= 4:12.2.0-3), gcc-12 (>= 12.2.0-1~) | gcc-11,
 libc-dev:any
Recommends: make
Description: compiler
 Depends: not this one

Package: half
Status: install ok half-configured
Architecture: all
Version: 1

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 2
"""


def spec(**given: Any) -> dict[str, Any]:
    lists = ("repositories", "packages", "held", "files", "services", "made")
    return {"name": "role", **{name: [] for name in lists}, **given}


def package(name: str, version: str = "1", state: str = "installed", **fields: Any) -> Package:
    return Package(name, version, state, **fields)


def machine(*packages: Package, **fields: Any) -> MachineState:
    return MachineState(packages={each.name: each for each in packages}, **fields)


def said(wanted: dict[str, Any], there: MachineState) -> list[str]:
    return list(compare(wanted, there)["differences"])


@needs_dpkg
def test_packages_are_listed_with_holds_relations_and_half_done_ones(tmp_path: Path) -> None:
    (tmp_path / "status").write_text(STATUS)
    argv = ["dpkg-query", f"--admindir={tmp_path}", "-W", "-f", FORMAT]
    listed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    packages = parse_listing(f"dpkg-query: warning: {tmp_path} is odd\n{listed}")
    assert set(packages) == {"dpkg", "libc6:i386", "gcc", "half", "gone"}
    assert packages["gcc"].held
    assert packages["gcc"].needs == (("cpp",), ("gcc-12", "gcc-11"), ("libc-dev",))
    assert packages["gcc"].wishes == (("make",),)
    assert packages["libc6:i386"].provides == ("libc-dev",)
    assert set(present(packages)) == {"dpkg", "libc6:i386", "gcc"}
    assert interrupted(packages) == ["half"]


def test_each_kind_of_difference_is_named() -> None:
    wanted = spec(
        packages=["a", "b=2", "c=535.*", "d", "docker.io | docker-ce", "e"],
        held=[{"names": ["c*"], "version": "535.*"}],
        files=[{"path": "/x", "content": "x"}, {"path": "/y", "content": "y", "mode": "0600"}],
        services=[{"name": "s", "files": ["/x"]}, {"name": "t"}, {"name": "u"}],
        made=[{"what": "nvcc", "argv": ["nvcc"], "expect": "release 11[.]3", "make": ["make"]}],
    )
    there = machine(
        package("b", "1"),
        package("c", "535.1"),
        package("cc", "470.1"),
        package("d", state="half-configured"),
        package("docker-ce"),
        package("e"),
        files={"/x": ("old", "0644"), "/y": ("y", "0644")},
        services={"s": {"running": True, "enabled": True}, "t": None,
                  "u": {"running": False, "enabled": True}},
        made={"nvcc": "release 12.4\n"},
    )  # fmt: skip
    result = compare(wanted, there)
    assert result["differences"] == [
        "package a: not installed",
        "package b: 1, not 2",
        "package d: half-configured",
        "package c: not held",
        "file /x: differs from what setup writes",
        "file /y: mode 0644, not 0600",
        "service t: missing",
        "service u: stopped",
        "nvcc: release 12.4",
    ]
    todo = result["todo"]
    assert todo["packages"] == ["a", "b=2", "d"]
    assert (todo["hold"], todo["enable"], todo["restart"]) == (["c"], ["t", "u"], ["s"])
    assert todo["make"] == ["nvcc"]
    assert result["interrupted"] == ["d"]


def test_items_for_other_machines_are_passed_over() -> None:
    item = {"what": "w", "argv": ["w"], "expect": "w", "only_with": "/proc/driver/nvidia/version"}
    file = {"path": "/p", "content": "", "unless": "/run/systemd/system"}
    assert said(spec(made=[item], files=[file]), machine(paths={"/run/systemd/system"})) == []


def test_a_json_file_keeps_what_others_put_there() -> None:
    item = {"path": "/d.json", "merge": {"runtimes": {"nvidia": {"path": "n"}}}}
    theirs = '{"debug": true, "runtimes": {"crun": {}}}'
    there = machine(files={"/d.json": (theirs, "0644")})
    text = compare(spec(files=[item]), there)["todo"]["files"][0]["content"]
    assert said(spec(files=[item]), machine(files={"/d.json": (text, "0644")})) == []
    for word in ('"debug": true', '"crun"', '"nvidia"'):
        assert word in text
    with pytest.raises(StateError, match=r"/d[.]json is not JSON; correct it"):
        said(spec(files=[item]), machine(files={"/d.json": ("{", "0644")}))


def test_what_a_broken_off_run_owed_is_done_by_the_next() -> None:
    wanted = spec(
        files=[{"path": "/m", "content": "m", "after": ["update-initramfs", "-u"]}],
        services=[{"name": "s", "files": ["/m"]}],
    )
    there = machine(
        files={"/m": ("m", "0644")},
        services={"s": {"running": True, "enabled": True}},
        ledger={"owed": {"restart": ["s"], "after": [["update-initramfs", "-u"]]}},
    )
    assert said(wanted, there) == [
        "file /m: update-initramfs -u has not run since",
        "service s: not restarted since its file changed",
    ]


REPOSITORY = {
    "name": "cuda",
    "uri": "https://example.org/cuda/",
    "suite": "/",
    "key": "https://example.org/key",
    "fingerprints": ["A" * 40],
}


def test_a_repository_that_somebody_else_configured_is_used_as_it_is() -> None:
    listed = configured("x.list", "# deb no /\ndeb [signed-by=/k] https://example.org/cuda /\n")
    assert listed == {("https://example.org/cuda", "/")}
    text = "Types: deb\nURIs: https://example.org/cuda/\nSuites: /\nEnabled: no\n\n"
    assert configured("x.sources", text) == set()
    assert configured("x.sources", text.replace("Enabled: no\n", "")) == listed
    assert said(spec(repositories=[REPOSITORY]), machine(foreign=listed)) == []
    assert said(spec(repositories=[REPOSITORY]), machine()) == [
        "repository cuda: missing",
        "file /etc/apt/sources.list.d/trainbench-cuda.sources: missing",
    ]


# Made by gpg for this test, with no private halves left: one@example.org, two@example.org.
ONE, ONES = (
    b"""\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawF1EhYJKwYBBAHaRw8BAQdAQobBjUEl/D3ibiLBZqq/QQNXIDHOOofyt1oL
7Y6wp6C0FW9uZSA8b25lQGV4YW1wbGUub3JnPoiWBBMWCAA+FiEEex+Efk9ob6FO
+M3+DTH5/1rjotsFAmsBdRICGwMFCQPCZwAFCwkIBwIGFQoJCAsCBBYCAwECHgEC
F4AACgkQDTH5/1rjottQ8QEA1M1M43gfOy9j2CbQP2CT17VJBNNtzSAfsEvheunw
P3MA/3JiBoahA75pOEtMIIySgzM2h6nwNOxodB25yixaU6cB
=P7oe
-----END PGP PUBLIC KEY BLOCK-----
""",
    "7B1F847E4F686FA14EF8CDFE0D31F9FF5AE3A2DB",
)
TWO, TWOS = (
    b"""\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawF1EhYJKwYBBAHaRw8BAQdAFrt2mLfxPrShzXJkwng5bINtzRq6QKfj3YGG
Du0kwt+0FXR3byA8dHdvQGV4YW1wbGUub3JnPoiWBBMWCAA+FiEECHOFFyIyaYbo
L1pZJejT9HN89wEFAmsBdRICGwMFCQPCZwAFCwkIBwIGFQoJCAsCBBYCAwECHgEC
F4AACgkQJejT9HN89wFl0wEA+MlTkYM23Nqo8HuaQ7mbHfMXXoCeywvbuU2j0s39
gWsA/3Q1otPDI9gBReTrAEhHOUmhFbMtsFXh16CLgJ94PBkE
=mqC1
-----END PGP PUBLIC KEY BLOCK-----
""",
    "0873851722326986E82F5A5925E8D3F4737CF701",
)


def test_a_key_is_known_by_its_fingerprint() -> None:
    assert fingerprints(dearmor(ONE)) == [ONES]
    assert key_fault(ONE, [f"{ONES[:20]} {ONES[20:]}".lower()]) == ""
    both = dearmor(ONE) + dearmor(TWO)
    assert fingerprints(both) == fingerprints(dearmor(ONE + TWO)) == [ONES, TWOS]
    assert key_fault(both, [ONES, TWOS]) == ""
    # a second key in the file is one that nobody asked for
    assert key_fault(both, [ONES]) == f"key {ONES}, {TWOS}, not {ONES}"
    assert key_fault(b"<html>404</html>", [ONES]) == "not an OpenPGP key"
    assert key_fault(b"", [ONES]) == "empty"


def test_the_ledger_counts_what_came_with_us_and_nothing_else() -> None:
    wanted = spec(packages=["chrony", "gcc=2"], held=[{"names": ["gcc"]}])
    there = machine(package("timesyncd"), package("gcc", "1"), package("old"))
    todo = compare(wanted, there)["todo"]
    ledger = before(wanted, there, todo)
    # The change died, somebody installed emacs, and the next run came through.
    later = machine(
        package("chrony", needs=(("libcap", "libcap2"),), wishes=(("net-tools",),)),
        package("libcap2", provides=("libcap",)),
        package("net-tools"),
        package("emacs"),
        package("gcc", "2", held=True),
        package("old"),
        ledger=ledger,
    )
    broken_off = account(wanted, later, complete=False)
    assert broken_off["before"] == ledger["before"]
    later.ledger = broken_off
    kept = account(wanted, later, complete=True)
    assert kept["packages"] == {"chrony": "1", "libcap2": "1", "net-tools": "1"}
    assert kept["removed"] == {"timesyncd": "1"}
    assert kept["changed"] == {"gcc": "1"}
    assert kept["held"] == ["gcc"]
    assert "before" not in kept
    assert "owed" not in kept

    later.ledger = kept
    plan = undo(later)
    assert plan["remove"] == ["chrony", "libcap2", "net-tools"]
    assert plan["install"] == ["timesyncd"]  # apt has another version by now
    assert undo(later, ["timesyncd=1"])["install"] == ["timesyncd=1"]
    assert plan["downgrade"] == ["gcc=1"]
    assert plan["unhold"] == ["gcc"]


def test_our_holds_give_way_to_a_changed_pin_and_nobody_elses() -> None:
    there = machine(
        package("driver", "1", held=True),
        package("part", "1", held=True),
        package("theirs", "1", held=True),
        ledger={"packages": {"driver": "1"}, "held": ["driver", "part"]},
    )
    todo = compare(spec(packages=["driver=2"]), there)["todo"]
    assert todo["unhold"] == ["driver", "part"]
    assert compare(spec(packages=["driver=1"]), there)["todo"]["unhold"] == []


def test_what_others_need_by_now_stays_and_is_named() -> None:
    there = machine(
        package("libnuma1"),
        package("numactl", needs=(("libnuma1",),)),
        package("theirs", needs=(("libnuma1", "libother"),)),
        ledger={"packages": {"libnuma1": "1", "numactl": "1"}},
    )
    plan = undo(there)
    assert plan["remove"] == ["numactl"]
    assert plan["stays"] == ["package libnuma1: theirs needs it"]
    # an alternative that stays is enough
    there.packages["libother"] = package("libother")
    assert undo(there)["remove"] == ["libnuma1", "numactl"]


def test_files_and_services_go_back_to_what_they_were() -> None:
    file = {"path": "/f", "content": "ours", "mode": "0644"}
    wanted = spec(files=[file, {**file, "path": "/new"}], services=[{"name": "s"}, {"name": "t"}])
    there = machine(
        files={"/f": ("theirs", "0600"), "/new": None},
        services={"s": {"running": False, "enabled": False}, "t": None},
    )
    ledger = before(wanted, there, compare(wanted, there)["todo"])
    runs = {"running": True, "enabled": True}
    after = machine(
        files={"/f": ("ours", "0644"), "/new": ("edited", "0644")},
        services={"s": runs, "t": runs},
        ledger=ledger,
    )
    plan = undo(after)
    assert plan["restore"] == [{"path": "/f", "content": "theirs", "mode": "0600"}]
    assert plan["delete"] == ["/new"]
    assert plan["services"] == [{"name": "s", "running": False, "enabled": False}]
    assert plan["stop"] == ["t"]
    after.files["/f"] = ("somebody's", "0644")
    plan = undo(after)
    assert plan["restore"] == []
    assert plan["stays"] == ["file /f: somebody edited it since"]


@needs_dpkg
def test_the_program_as_a_node_runs_it(tmp_path: Path) -> None:
    """One text, no checkout, no site packages; the machine is a folder."""
    repository = {**REPOSITORY, "key": f"file://{tmp_path}/key", "fingerprints": [ONES]}
    wanted = spec(packages=["gcc", "make"], repositories=[repository])
    status = tmp_path / "var/lib/dpkg/status"
    for folder in (status.parent, tmp_path / "etc/apt/keyrings", tmp_path / "var/lib/trainbench"):
        folder.mkdir(parents=True)
    status.write_text(STATUS)
    (tmp_path / "key").write_bytes(ONE)
    root = {"TRAINBENCH_TEST_ROOT": str(tmp_path)}

    def told(entry: str, given: dict[str, Any]) -> dict[str, Any]:
        ran = run(f"state.{entry}", given, root)
        assert (ran.code, ran.words) == (0, ""), entry
        return dict(ran.facts)

    missing = ["repository cuda: missing", "package make: not installed"]
    source = "/etc/apt/sources.list.d/trainbench-cuda.sources"
    said = [*missing, f"file {source}: missing"]
    assert told("inspection:look", wanted)["differences"] == said
    refused = run("state.inspection:verify", wanted, root)
    assert refused == (1, None, "; ".join(said))
    assert told("steps:begin", wanted) == {}

    keyring = "/etc/apt/keyrings/trainbench-cuda.gpg"
    (tmp_path / "key").write_bytes(TWO)
    refused = run("state.steps:keys", wanted, root)
    assert (refused.code, refused.facts) == (1, None)
    assert refused.words.startswith(f"what {repository['key']} gives is not the key of repository")
    assert not (tmp_path / keyring[1:]).exists()
    (tmp_path / "key").write_bytes(ONE)
    assert told("steps:keys", wanted) == {}
    assert (tmp_path / keyring[1:]).read_bytes() == dearmor(ONE)
    there = "Package: make\nStatus: install ok installed\nVersion: 4.3\n"
    status.write_text(f"{STATUS}\n{there}")
    assert told("steps:account", wanted)["differences"] == [said[2]]
    (tmp_path / source[1:]).parent.mkdir()
    (tmp_path / source[1:]).write_text(sources(repository)["content"])
    (tmp_path / source[1:]).chmod(0o644)
    assert told("steps:finish", wanted) == {"differences": []}
    assert told("inspection:verify", wanted) == {}

    plan = told("steps:undo", spec())
    assert (plan["remove"], sorted(plan["delete"])) == (["make"], [keyring, source])
    refused = run("state.steps:forget", spec(), root)
    assert (refused.code, refused.facts) == (1, None)
    assert refused.words.startswith("these could not be undone: make, ")
    status.write_text(STATUS)
    for path in plan["delete"]:
        (tmp_path / path[1:]).unlink()
    assert told("steps:forget", spec()) == {"stays": []}
    assert not (tmp_path / "var/lib/trainbench").exists()


FAULTS = {
    "E: You don't have enough free space in /var/cache/apt/archives/.": "the disk is full",
    "OSError: [Errno 28] No space left on device: '/tmp/x'": "the disk is full",
    "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (apt)": (
        "another program is installing packages (process 4711 (apt))"
    ),
    "W:GPG error: http://m.example.org/cuda  InRelease: The following signatures couldn't be "
    "verified because the public key is not available: NO_PUBKEY 1234, E:The repository "
    "'http://m.example.org/cuda  InRelease' is not signed.": (
        "repository http://m.example.org/cuda is not signed with the key that is trusted for it"
    ),
    "No package matching 'gcc-10' is available": "no repository of this node has package gcc-10",
    "no available installation candidate for libnccl2=9": "has package libnccl2=9",
    "Failed to fetch http://m.example.org/x.deb  404  Not Found": (
        "cannot fetch http://m.example.org/x.deb; bring that server back"
    ),
    "dpkg: error processing package foo (--configure):": "package foo does not install",
    "something new": "something new",
}


@pytest.mark.parametrize(
    ("text", "words"), FAULTS.items(), ids=[str(n) for n in range(len(FAULTS))]
)
def test_a_failed_apt_is_said_in_one_sentence(text: str, words: str) -> None:
    of_items = {"msg": "One or more items failed", "results": [{"msg": text}]}
    for result in ({"msg": "it failed", "stderr": text}, of_items):
        if text != "something new" or "results" in result:
            assert words in apt_fault(result)
            assert "\n" not in apt_fault(result)


def test_a_package_that_no_repository_has_ends_with_the_roles_own_cure() -> None:
    missing = {"msg": "No package matching 'gcc-10' is available"}
    assert apt_fault(missing).endswith("has package gcc-10; correct the pin, or the repositories")
    assert apt_fault(missing, "name another").endswith("has package gcc-10; name another")
