"""prefetch.yml's program: what an inventory needs, and how it comes into one folder."""

import hashlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from roles.prefetch.files import needs, prefetch
from runner.base.paths import PROJECT

ROLES = str(PROJECT / "roles")


HERE = "{}.{}".format(*sys.version_info[:2])


def spec_of(folder: Path, **more: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"dir": str(folder), "roles": ROLES, "systems": ["torch_gpt"]}
    base |= {
        "variables": {},
        "mirrors": {},
        "nodes": [[HERE, "x86_64"]],
        "device": "cpu",
        "privileged": False,
    }
    return {**base, **more}


def test_the_reference_system_and_the_default_corpus(tmp_path: Path) -> None:
    found = needs.needs(spec_of(tmp_path))
    trainer, tools = found.wheels
    assert "torch==2.13.0" in trainer.requirements
    assert "torchao==0.17.0" in trainer.requirements  # what is optional, too
    assert any(pin.startswith("tokenizers==") for pin in tools.requirements)
    assert (found.commits, found.files) == (set(), [])
    assert prefetch.places(found)["pip"] == {"https://pypi.org/simple": "pip"}


def test_pin_sets_are_the_inventorys(tmp_path: Path) -> None:
    chosen = {"torch_gpt_pin_sets": ["torch-2.12", "torch-2.11"]}
    found = needs.needs(spec_of(tmp_path, variables=chosen))
    pins = [pin for group in found.wheels for pin in group.requirements]
    assert {"torch==2.12.1", "torch==2.11.0"} <= set(pins)
    assert "torch==2.13.0" not in pins
    with pytest.raises(needs.PrefetchError, match="torch_gpt has no pin set torch-9"):
        needs.needs(spec_of(tmp_path, variables={"torch_gpt_pin_sets": ["torch-9"]}))


def test_pin_sets_that_an_inventory_declares_are_fetched_too(tmp_path: Path) -> None:
    source = {"repository": "https://git.example/mine", "commit": "5" * 40}
    declared = {
        "mine": {"python": HERE, "torch": {"version": "2.11.0"}, "source": source},
        "other": {"requirements": ["tiktoken==0.9.0"]},
    }
    spec = spec_of(tmp_path, systems=["command"], variables={"command_pins": declared})
    found = needs.needs(spec)
    pins = {pin for group in found.wheels for pin in group.requirements}
    assert {"torch==2.11.0", "tiktoken==0.9.0"} <= pins
    assert found.commits == {("https://git.example/mine", "5" * 40)}
    spec["variables"]["command_pin_sets"] = ["other"]
    assert needs.needs(spec).commits == set()


def test_datasets_with_files(tmp_path: Path) -> None:
    found = needs.needs(spec_of(tmp_path, variables={"dataset_names": ["oscar-1GB"]}))
    files = {item.path for item in found.files if item.dataset}
    assert "data/s3.amazonaws.com/models.huggingface.co/bert/gpt2-vocab.json" in files
    assert all(item.sha256 != "recorded" for item in found.files)
    assert "https://s3.amazonaws.com/" in prefetch.places(found)["data"]
    with pytest.raises(needs.PrefetchError, match=r"dataset '\.\.'"):
        needs.needs(spec_of(tmp_path, variables={"dataset_names": [".."]}))


def test_a_wiki_dump_needs_its_extractor(tmp_path: Path) -> None:
    found = needs.needs(spec_of(tmp_path, variables={"dataset_names": ["enwiki"]}))
    assert "wikiextractor==3.0.8" in [pin for group in found.wheels for pin in group.requirements]


def test_cuda_that_comes_as_a_file_is_for_privileged_gpu_clusters_only(tmp_path: Path) -> None:
    chosen = {"cuda_versions": ["10.2", "11.3"]}
    gpus = spec_of(tmp_path, variables=chosen, device="cuda", privileged=True)
    (file,) = needs.needs(gpus).files
    assert "cuda_10.2.89" in file.url
    assert needs.needs({**gpus, "privileged": False}).files == []
    assert needs.needs({**gpus, "device": "cpu"}).files == []


def test_what_the_folder_cannot_have_is_named(tmp_path: Path) -> None:
    assert needs.needs(spec_of(tmp_path)).left_out == []
    chosen = {
        "megatron_lm_pin_sets": ["v1.1.5", "20.12-py3"],
        "container_runtime_engines": ["docker"],
        "container_runtime_image": "example.org/cuda:12",
    }
    more = {"systems": ["megatron_lm"], "privileged": True, "device": "cuda", "variables": chosen}
    assert needs.needs(spec_of(tmp_path, **more)).left_out == [
        "conda's packages of Python 3.8",
        "the image nvcr.io/nvidia/pytorch:20.12-py3 and what is built into it",
        "the image example.org/cuda:12",
    ]
    again = spec_of(tmp_path, **{**more, "privileged": False, "nodes": [["3.8", "x86_64"]]})
    assert len(needs.needs(again).left_out) == 1


def test_conda_is_for_a_python_that_the_nodes_lack(tmp_path: Path) -> None:
    (file,) = needs.conda_files(spec_of(tmp_path))
    assert file.url.endswith("-Linux-x86_64.sh")
    assert (file.kind, len(file.sha256)) == ("conda", 64)


@pytest.mark.parametrize(
    "url", ["https:///x", "https://h/", "https://h/../x", "https://h/a%2F../x"]
)
def test_an_address_that_leaves_the_folder_is_refused(url: str) -> None:
    with pytest.raises(needs.PrefetchError, match="is not the address of a file"):
        needs.File(url).path  # noqa: B018  # the property raises


# --- real downloads -------------------------------------------------------------------------------


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder that is served over HTTP."""
    served = tmp_path / "served"
    served.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(served)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield served, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_files_come_from_the_mirror_and_are_checked(tmp_path: Path, site: tuple[Path, str]) -> None:
    served, address = site
    (served / "a+b.bin").write_bytes(b"corpus")
    right = hashlib.sha256(b"corpus").hexdigest()
    mirrors = {"data": {"https://example.org/": address}}
    work = prefetch.Prefetch(spec_of(tmp_path / "f", mirrors=mirrors))
    url = "https://example.org/a%2Bb.bin"
    work.files([needs.File(url, right), needs.File(url, md5=hashlib.md5(b"corpus").hexdigest())])
    assert (tmp_path / "f/data/example.org/a+b.bin").read_bytes() == b"corpus"
    with pytest.raises(needs.PrefetchError, match=f"has sha256 {right}, not 0000"):
        work.files([needs.File(url, "0" * 64)])
    with pytest.raises(needs.PrefetchError, match=r"has md5 .*, not 0000"):
        work.files([needs.File(url, md5="0" * 32)])
    assert not (tmp_path / "f/data/example.org/a+b.bin").exists()


def git(folder: Path, *words: str) -> str:
    ran = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()


def test_commits_are_given_out_as_a_node_asks_for_them(tmp_path: Path) -> None:
    upstream = tmp_path / "upstream" / "owner" / "trainer"
    upstream.mkdir(parents=True)
    git(upstream, "init", "-q")
    for number in range(3):
        (upstream / "file").write_text(f"{number}")
        git(upstream, "add", "file")
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        git(upstream, *who, "commit", "-qm", f"{number}")
    pins = [git(upstream, "rev-parse", name) for name in ("HEAD~2", "HEAD~1")]
    mirrors = {"git": {"https://github.com/": f"file://{tmp_path}/upstream/"}}
    work = prefetch.Prefetch(spec_of(tmp_path / "f", mirrors=mirrors))
    wanted = [("https://github.com/owner/trainer", commit) for commit in pins]
    work.commits(wanted)
    bare = tmp_path / "f/git/github.com/owner/trainer"
    upstream.rename(tmp_path / "gone")
    work.commits(wanted)  # there already: nobody is asked
    for number, commit in enumerate(pins):
        clone = tmp_path / f"clone{number}"
        clone.mkdir()
        git(clone, "init", "-q")
        git(clone, "fetch", "-q", "--depth=1", "--no-tags", f"file://{bare}", commit)
        git(clone, "checkout", "-q", commit)
        assert (clone / "file").read_text() == f"{number}"
    with pytest.raises(needs.PrefetchError, match=r"https://github.com/owner/trainer: fatal: .*mi"):
        work.commits([("https://github.com/owner/trainer", "0" * 40)])


def make_wheel(folder: Path, name: str, *needs: str) -> None:
    """A wheel of one empty module."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-1.0.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    metadata += "".join(f"Requires-Dist: {need}\n" for need in needs)
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


def test_wheels_come_with_what_they_need(tmp_path: Path) -> None:
    make_wheel(tmp_path / "index", "toya", "toyb")
    make_wheel(tmp_path / "index", "toyb")
    mirrors = {"pip": {"https://pypi.org/simple": str(tmp_path / "index")}}
    work = prefetch.Prefetch(spec_of(tmp_path / "f", mirrors=mirrors))
    work.wheels([needs.Wheels(HERE, ["toya==1.0"], constraints=["toyb==1.0"])])
    names = {path.name for path in (tmp_path / "f/pip").iterdir()}
    assert names == {"toya-1.0-py3-none-any.whl", "toyb-1.0-py3-none-any.whl"}
    found = needs.Needs(wheels=[needs.Wheels(HERE, [], ["https://example.org/whl"])])
    said = prefetch.manifest(tmp_path / "f", found)
    size, sha256 = said["files"]["pip/toya-1.0-py3-none-any.whl"]
    content = (tmp_path / "f/pip/toya-1.0-py3-none-any.whl").read_bytes()
    assert (size, sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert said["mirrors"]["pip"]["https://example.org/whl"] == "pip"
    with pytest.raises(needs.PrefetchError, match=r"pip download of toyc==1: ERROR: No matching"):
        work.wheels([needs.Wheels(HERE, ["toyc==1"])])


def test_a_python_that_is_not_here_is_named() -> None:
    with pytest.raises(needs.PrefetchError, match=r"no Python 2\.1 with pip.*install python2\.1"):
        prefetch.interpreter("2.1")


def test_the_program_says_one_sentence(tmp_path: Path) -> None:
    bad = spec_of(tmp_path, variables={"torch_gpt_pin_sets": ["x"]})
    ran = subprocess.run(
        [sys.executable, prefetch.__file__],
        input=json.dumps(bad),
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("torch_gpt has no pin set x;")
    assert len(ran.stderr.splitlines()) == 1
