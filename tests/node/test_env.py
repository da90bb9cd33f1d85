"""node/env: what a lock and steps make of what is installed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from node.canonical import canonical
from node.env.change import PIP_SINCE
from node.env.environment import EnvError
from node.env.indexes import sources
from node.env.inspection import look
from node.env.interpreter import config_program
from node.env.lock import digest_of_lock, frozen, header, parsed
from node.env.packages import installed
from node.env.pins import fits, meets, numbers
from node.env.pip import failure
from node.env.plan import digest, plan

if TYPE_CHECKING:
    from node.env.pins import Packages, Spec

STEP = {"name": "requirements", "requirements": ["torch==2.1", "NumPy==1.22.0"]}
TREE = {"name": "apex", "built": {"folder": "/w", "identity": ["a"]}, "project": "apex"}


def packages(**versions: str) -> Packages:
    return {
        canonical(name): {"name": name, "version": version, "origin": ""}
        for name, version in versions.items()
    }


def planned(
    there: Packages,
    lock: list[str] | None = None,
    record: Spec | None = None,
    steps: list[Spec] | None = None,
    later: list[str] | None = None,
) -> tuple[list[str], list[Spec]]:
    spec = {"steps": [STEP] if steps is None else steps, "later": later or []}
    return plan(spec, there, "3.8.1", lock or [], record or {})


WHOLE = packages(torch="2.1+cpu", numpy="1.22.0", six="1.16.0")
LOCK = [header("3.8.1"), *frozen(WHOLE)]


def test_nothing_to_do_where_lock_and_pins_hold() -> None:
    assert planned(WHOLE, LOCK) == ([], [])


def test_one_package_by_hand_is_named_and_brought_back_alone() -> None:
    there = {**WHOLE, **packages(six="1.15.0", left="1.0")}
    faults, todo = planned(there, LOCK)
    assert faults == ["left 1.0 is not in the lock", "six is 1.15.0, not 1.16.0 as in the lock"]
    assert todo[0]["install"] == ["six==1.16.0"]
    assert todo[0]["remove"] == ["left"]
    assert [do["what"] for do in todo] == ["repair", "lock"]


def test_a_pin_is_its_steps_to_repair() -> None:
    faults, todo = planned({**WHOLE, **packages(numpy="1.21.0")}, LOCK)
    assert faults == ["numpy is 1.21.0, not 1.22.0"]
    assert [do["what"] for do in todo] == ["install", "lock"]
    gone = {name: entry for name, entry in WHOLE.items() if name != "numpy"}
    assert planned(gone, LOCK)[0] == ["numpy 1.22.0 is not there"]


def test_a_local_part_matters_where_the_pin_has_one() -> None:
    assert meets("1.10.1+cu113", "1.10.1")
    assert meets("1.10.1+cu113", "1.10.1+cu113")
    assert not meets("1.10.1", "1.10.1+cu113")
    assert not meets("1.10.10", "1.10.1")


def test_pins_that_hold_and_no_lock_are_taken_over() -> None:
    assert planned(WHOLE) == ([], [{"what": "lock", "words": "write down what is there"}])


def test_what_an_interrupted_run_brought_is_no_drift() -> None:
    record = {"pending": True, "steps": {}}
    faults, todo = planned({**WHOLE, **packages(new="1.0")}, LOCK, record)
    assert faults == ["requirements was not installed to the end"]
    assert [do["what"] for do in todo] == ["install", "lock"]


def built(**more: Any) -> Spec:
    known = {"digest": digest(TREE), "holds": {"apex": "0.1"}, "torch": "2.1+cpu", **more}
    return {"steps": {"apex": known}}


def test_a_build_is_done_again_for_another_source_torch_or_version() -> None:
    there = {**WHOLE, **packages(apex="0.1")}
    lock = [header("3.8.1"), *frozen(there)]

    def of(record: Spec, now: Packages) -> list[str]:
        return planned(now, lock, record, [STEP, TREE])[0]

    assert of(built(), there) == []
    assert of(built(digest="x"), there) == ["apex has another source, patch or build than the pin"]
    assert of(built(torch="1.9"), there) == [
        "apex was built with torch 1.9, not with torch 2.1+cpu"
    ]
    by_hand = {**there, **packages(apex="0.2")}
    assert of(built(), by_hand) == ["apex is 0.2, not 0.1 as it was installed"]
    assert of({}, there) == ["apex is not there"]


def test_another_torch_has_all_builds_done_again() -> None:
    there = {**WHOLE, **packages(apex="0.1", torch="1.9")}
    lock = [header("3.8.1"), *frozen(there)]
    todo = planned(there, lock, built(torch="1.9"), [STEP, TREE])[1]
    assert [do.get("name") for do in todo] == ["requirements", "apex", None]


def test_a_step_for_later_is_left_and_no_lock_is_written() -> None:
    faults, todo = planned(WHOLE, LOCK, {}, [STEP, TREE], later=["apex"])
    assert faults == ["apex is not there"]
    assert todo == []


def test_the_locks_checksum_does_not_hang_on_folders_or_installers() -> None:
    lines = ["a==1", "apex==0.1 @ file:///one/apex.whl#sha256=5", "pip==23.0"]
    other = ["a==1", "apex==0.1 @ file:///two/apex.whl#sha256=5", "pip==24.0"]
    assert digest_of_lock(lines) == digest_of_lock(other)
    assert digest_of_lock(["a==2"]) != digest_of_lock(["a==1"])


@pytest.mark.parametrize(
    ("version", "wanted", "good"),
    [
        ("3.8.18", "3.8", True),
        ("3.8.18", "3.8.1", False),
        ("3.80.1", "3.8", False),
        ("3.9", "", True),
    ],
)
def test_a_python_fits_by_whole_numbers(version: str, wanted: str, good: bool) -> None:
    assert fits(version, wanted) is good


SPEC = {"index": "", "extra_index": "", "find_links": "", "mirrors": {}}


@pytest.mark.parametrize(
    ("more", "indexes", "lines"),
    [
        ({}, [], []),
        ({"index": "https://a.example/simple"}, [], ["--index-url https://a.example/simple"]),
        ({}, ["https://t.example/cu113"], ["--extra-index-url https://t.example/cu113"]),
        (
            {"mirrors": {"pip": {"https://pypi.org/": "https://m.example/pypi/"}}},
            [],
            ["--index-url https://m.example/pypi/simple"],
        ),
        (
            {"mirrors": {"pip": {"https://": "/srv/wheels/"}}},
            ["https://t.example/cu113"],
            [
                "--no-index",
                "--find-links /srv/wheels/pypi.org/simple",
                "--find-links /srv/wheels/t.example/cu113",
            ],
        ),
        ({"find_links": "/opt/w"}, [], ["--find-links /opt/w"]),
    ],
)
def test_where_pip_looks(more: dict[str, Any], indexes: list[str], lines: list[str]) -> None:
    assert sources({**SPEC, **more}, indexes) == lines


def test_failures_are_one_sentence_where_the_reason_is_known() -> None:
    full = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    said = failure("torch", full, "/nowhere/logs/torch.log")  # a folder that is not there yet
    assert re.fullmatch(
        r"the disk is full \(/ has [\d.]+ \w+ of [\d.]+ [GT]iB free(, \S+ has .* free)?\)"
        r" during step torch; free some space and run setup again",
        said,
    )
    absent = "ERROR: Could not find a version\nERROR: No matching distribution found for a==9"
    assert failure("requirements", absent, "log") == (
        "No matching distribution found for a==9 (step requirements); correct the pin, or name an "
        "index that has it with python_env_index_url"
    )
    assert failure("x", "one\n\ntwo\n", "/l").endswith("/l ends with:\none\ntwo")
    build = "  SyntaxError: invalid syntax\n  [end of output]\n\n  note: This error originates\n"
    assert failure("source", build, "/l") == (
        "source cannot be built; /l has:\n  SyntaxError: invalid syntax"
    )
    assert failure("requirements", f"{build}  ERROR: Failed building wheel for apex\n", "/l") == (
        "requirements: apex cannot be built; /l has:\n  SyntaxError: invalid syntax"
    )


def test_packages_are_read_as_they_lie_there(tmp_path: Path) -> None:
    site = tmp_path / "env" / "lib"
    for name, text in {
        "Six-1.16.0.dist-info/METADATA": "Name: Six\nVersion: 1.16.0\n\nName: x",
        "old.egg-info/PKG-INFO": "Name: old\nVersion: 2\n",
        "~umpy-1.0.dist-info/METADATA": "Name: numpy\nVersion: 1.0\n",
        "broken-1.dist-info/METADATA": "Name: broken\n",
    }.items():
        (site / name).parent.mkdir(parents=True)
        (site / name).write_text(text)
    url = {"url": "file:///w/six.whl", "archive_info": {"hash": "sha256=ab"}}
    (site / "Six-1.16.0.dist-info" / "direct_url.json").write_text(json.dumps(url))
    found = installed({"prefix": str(tmp_path / "env"), "path": [str(site), str(tmp_path / "no")]})
    assert frozen(found) == ["old==2", "six==1.16.0 @ file:///w/six.whl#sha256=ab"]
    assert parsed(frozen(found))["six"] == ("1.16.0", "file:///w/six.whl#sha256=ab")


def test_a_venv_gets_the_config_program_of_its_python_and_others_their_own(tmp_path: Path) -> None:
    base = tmp_path / "a python"
    said = {"version": "3.8.18", "prefix": "/opt/env", "base": str(base)}
    assert config_program(said) == ""  # no headers: no program
    program = base / "bin" / "python3.8-config"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$0" "$@"\n')
    program.chmod(0o755)
    assert config_program({**said, "prefix": str(base)}) == ""  # conda
    script = tmp_path / "python3-config"
    script.write_text(config_program(said))
    ran = subprocess.run(["sh", str(script), "--includes"], capture_output=True, text=True)
    assert ran.stdout == f"{program} --includes\n"


def test_a_pip_that_says_nowhere_what_it_installed_is_too_old() -> None:
    """Ubuntu 20.04 has 20.0.2, Debian 11 20.3.4."""
    assert numbers("20.0.2") < PIP_SINCE <= numbers("20.3.4") < numbers("23.0.1")


def test_somebody_elses_python_may_lack_what_is_optional(tmp_path: Path) -> None:
    extra: Spec = {"name": "requirements-2", "requirements": ["no-such-package==1.0"]}
    spec = {
        **{"path": str(tmp_path / "env"), "existing": sys.executable, "python": "3.7"},
        "steps": [{"name": "requirements", "requirements": ["pytest==1.0"]}, extra],
    }
    with pytest.raises(EnvError, match=r"lacks no-such-package; install"):
        look(spec)
    extra["optional"] = True
    said = look(spec)
    assert said["make"] == "link"
    assert said["versions"]["no-such-package"] == ""
    assert said["versions"]["pytest"] == pytest.__version__
