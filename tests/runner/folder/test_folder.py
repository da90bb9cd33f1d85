"""A campaign's folder: who may go on, what is whole, what is newest."""

import errno
import json
import os
import re
import signal
import stat
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from node.causes import Cause
from node.files import create_once
from node.schema import Fields, Plain
from runner.base.errors import UserError
from runner.folder import lock, names
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign, campaigns, find_campaign
from runner.folder.checkup import Reply, checkup_of
from runner.folder.endings import Ending
from runner.folder.stored import UnreadableError, load, write_json
from runner.terms.cell import MOST_REPEATS
from runner.terms.cluster import Cluster
from runner.terms.inspected import ENV
from runner.terms.outcome import Outcome
from tests.runner.builders import small_cluster, small_matrix, small_run

MATRIX = small_matrix({"zero_stage": [0, 1]}, repeats=2)
CLUSTER = small_cluster()


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    return Campaign(tmp_path / "runs" / "m-rack")


@pytest.fixture
def begun(campaign: Campaign) -> Campaign:
    """A campaign with one attempt, so that it has something to lose."""
    with campaign.locked():
        campaign.open(MATRIX, CLUSTER)
        campaign.new_attempt(MATRIX.cells[0].id, 1)
    return campaign


# --- whole files ----------------------------------------------------------------------------------


def test_json_is_written_whole_with_its_schema_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "outcome.json"
    write_json(path, {"a": "é"})
    assert json.loads(path.read_text()) == {"schema": 1, "a": "é"}
    assert os.listdir(path.parent) == ["outcome.json"]
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_writer_that_dies_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "outcome.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": 2, "bad": object()})
    assert load(path, Plain()) == {"schema": 1, "a": 1}


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_json(path, {"text": "0" * 200_000})
    over = threading.Event()
    seen = []

    def read() -> None:
        while not over.is_set():
            seen.append(load(path, Plain()))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(20):
        write_json(path, {"text": str(number) * 200_000})
    over.set()
    reader.join()
    assert seen
    assert None not in seen


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", "\udcff", "[" * 100_000])
def test_what_is_no_whole_object_is_said_in_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UnreadableError, match=r"^\S+/x.json:? (is|has)[^\n]*$"):
        load(tmp_path / "x.json", Fields({}))
    assert load(tmp_path / "none.json", Fields({})) is None


# --- a campaign is one matrix on one inventory ----------------------------------------------------


def test_a_new_campaign_records_what_it_was_asked(begun: Campaign) -> None:
    was = begun.settings
    assert (was.inventory, was.repeats, was.matrix) == ("rack", 2, MATRIX.text)
    assert [cell.name for cell in was.cells] == ["zero_stage=0", "zero_stage=1"]
    assert stat.S_IMODE(begun.path.stat().st_mode) == 0o700


def test_the_same_again_goes_on_and_leaves_the_record_alone(begun: Campaign) -> None:
    before = (begun.path / "campaign.json").read_bytes()
    begun.open(MATRIX, CLUSTER)
    begun.open(replace(MATRIX, time_limit_s=5.0, text="# a comment"), CLUSTER)
    assert (begun.path / "campaign.json").read_bytes() == before


def test_a_campaign_grows_once_it_is_adopted(begun: Campaign) -> None:
    """What a bench is refused for in between, as by its nodes, leaves the record alone."""
    before = (begun.path / "campaign.json").read_bytes()
    growth = begun.open(small_matrix({"zero_stage": [1, 2]}, repeats=3), CLUSTER)
    assert (begun.path / "campaign.json").read_bytes() == before
    begun.fix_environment({"dataset default": {"x.bin": "1"}})
    begun.adopt(growth)
    now = begun.settings
    assert [cell.name for cell in now.cells] == ["zero_stage=1", "zero_stage=2"]
    assert (now.repeats, now.environment) == (3, {"dataset default": {"x.bin": "1"}})
    assert now.cells[0].id == MATRIX.cells[1].id
    assert [cell.id for cell in now.hidden] == [MATRIX.cells[0].id]


def test_what_is_hidden_is_counted_and_named(begun: Campaign) -> None:
    zero, one = (cell.id for cell in MATRIX.cells)
    assert begun.hidden.words == ""
    for cell, repeat in ((zero, 2), (one, 1), (one, 2)):
        begun.new_attempt(cell, repeat)
    begun.new_attempt(one, 2)  # once more is no other run
    begun.adopt(begun.open(small_matrix({"zero_stage": [1]}), CLUSTER))
    assert begun.hidden.words == (
        "hidden: 3 runs not in this matrix any more, 1 cell (zero_stage=0) and 1 repeat of other"
        " cells; they stay on disk, and come back with their values"
    )
    begun.adopt(begun.open(MATRIX, CLUSTER))
    assert begun.hidden.words == ""


def test_a_campaign_of_runs_that_no_matrix_asked_for_takes_none(begun: Campaign) -> None:
    cells = tuple(replace(cell, repeats=1) for cell in begun.settings.cells)
    begun.write(replace(begun.settings, cells=cells))
    with pytest.raises(UserError, match="m-rack has runs that no matrix asked for"):
        begun.open(MATRIX, CLUSTER)


def moved(of: str, **changes: Any) -> Cluster:
    nodes = (replace(n, **changes) if n.host == of else n for n in CLUSTER.nodes)
    return replace(CLUSTER, nodes=tuple(nodes))


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (small_cluster(env={"A": "1"}), r"\(A changed from not set to 1\)"),
        (moved("n1", address="10.9.9.9"), r"\(address of n1 changed from .* to 10\.9\.9\.9\)"),
        (moved("n2", host="other"), r"\(node 2 changed from n2 to other\)"),
        (replace(CLUSTER, nodes=CLUSTER.nodes[:1]), r"\(node n2 is gone\)"),
        (replace(CLUSTER, device="cuda"), r"\(cluster_device changed from .* to cuda\)"),
    ],
)
def test_another_inventory_is_refused(begun: Campaign, cluster: Cluster, words: str) -> None:
    two = small_matrix({"zero_stage": [0, 1]}, {"nodes": 2})
    campaign = Campaign(begun.path.with_name("two"))
    campaign.open(two, CLUSTER)
    campaign.new_attempt(two.cells[0].id, 1)
    with pytest.raises(UserError, match="the inventory rack differs from the one") as refused:
        campaign.open(two, cluster)
    assert re.search(words, str(refused.value))


def test_hosts_behind_those_that_ran_may_come_and_change(begun: Campaign) -> None:
    used = max(cell.nodes for cell in MATRIX.cells)
    assert used < len(CLUSTER.nodes) + 1
    more = small_cluster(len(CLUSTER.nodes) + 1)
    begun.adopt(begun.open(MATRIX, more))
    assert len(begun.settings.machines["nodes"]) == len(more.nodes)
    begun.adopt(begun.open(MATRIX, CLUSTER))
    older = replace(begun.settings, machines={})
    begun.write(older)
    with pytest.raises(UserError, match=r"\(addresses, devices, root or cluster_env\)"):
        begun.open(MATRIX, more)


def test_a_campaign_in_which_nothing_ran_may_still_change(campaign: Campaign) -> None:
    campaign.open(MATRIX, CLUSTER)
    campaign.open(replace(MATRIX, repeats=5), small_cluster(3))
    assert campaign.settings.repeats == 5


def test_pins_and_datasets_are_fixed_by_the_first_run_that_ended_ok(begun: Campaign) -> None:
    begun.fix_environment({"dataset default": {"x.bin": "1"}})
    begun.fix_environment({"dataset default": {"x.bin": "1"}, "system torch_gpt/a": "2"})
    assert begun.settings.environment == {
        "dataset default": {"x.bin": "1"},
        "system torch_gpt/a": "2",
    }
    begun.fix_environment({"dataset default": {"x.bin": "repaired"}})
    assert (begun.settings.environment or {})["dataset default"] == {"x.bin": "repaired"}
    ended = Outcome("ok", "", "")
    write_json(begun.new_attempt(MATRIX.cells[0].id, 1).path / names.OUTCOME, ended.to_json())
    with pytest.raises(
        UserError, match=r"dataset default on the nodes is not .* `bench --name NAME`"
    ):
        begun.fix_environment({"dataset default": {"x.bin": "other"}})


# --- locks and attempts ---------------------------------------------------------------------------


def test_a_second_bench_is_refused_until_the_first_is_over(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "LOCK_PATIENCE_S", 0.05)
    with (
        campaign.locked(),
        pytest.raises(UserError, match="another bench runs campaign m-rack"),
        Campaign(campaign.path).locked(),
    ):
        pass
    with Campaign(campaign.path).locked():
        pass


def test_each_holder_leaves_a_word_of_its_own_in_the_lock(campaign: Campaign) -> None:
    """A launch plugin tells by it whether the lock is still its bench's."""
    words = []
    for _ in range(2):
        with campaign.locked():
            assert campaign.is_locked()
            words.append(campaign.holder)
            assert campaign.lock.read_text() == campaign.holder
    assert not campaign.is_locked()
    assert len(words[0]) >= 32
    assert words[0] != words[1]


def test_a_lock_held_for_an_instant_is_waited_for(campaign: Campaign) -> None:
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with campaign.locked():
            held.set()
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    threading.Timer(0.2, release.set).start()
    with Campaign(campaign.path).locked():
        pass
    holder.join()


def test_a_folder_that_cannot_be_made_is_the_users_error(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with (
        pytest.raises(UserError, match=r"cannot be made: .*; name another with --runs"),
        Campaign(tmp_path / "runs" / "m").locked(),
    ):
        pass


def test_attempts_count_up_and_sort_as_numbers(begun: Campaign) -> None:
    cell = MATRIX.cells[0].id
    made = [begun.new_attempt(cell, 1) for _ in range(10)]
    assert [attempt.number for attempt in made] == list(range(2, 12))
    assert [attempt.number for attempt in begun.attempts(cell, 1)] == list(range(1, 12))
    assert begun.attempts(cell, 2) == []
    assert stat.S_IMODE(made[0].path.stat().st_mode) == 0o700


def attempt_of(path: Path, hosts: list[str]) -> Attempt:
    run = small_run({"nodes": len(hosts)}, small_cluster(len(hosts)))
    nodes = [replace(node, host=host) for node, host in zip(run.nodes, hosts, strict=True)]
    write_json(path / "run.json", replace(run, nodes=tuple(nodes)).to_json())
    return Attempt(path, "cell", 1, 1)


def test_an_attempt_knows_its_nodes_logs_and_ends(tmp_path: Path) -> None:
    attempt = attempt_of(tmp_path, ["a", "b"])
    write_json(attempt.node(1) / "done.json", {"ended_by": "exit", "rc": 0})
    assert attempt.logs() == {
        0: tmp_path / "nodes" / "0000-a" / "launcher.log",
        1: tmp_path / "nodes" / "0001-b" / "launcher.log",
    }
    assert attempt.endings() == {"b": Ending("exit", rc=0)}
    assert attempt.endings()["b"].well
    assert (attempt.outcome, attempt.halt) == (None, None)


def test_the_first_cause_to_halt_stays(tmp_path: Path) -> None:
    attempt = attempt_of(tmp_path, ["a"])
    attempt.ask_to_halt(Cause.INTERRUPTED, "stopped by Ctrl-C")
    attempt.ask_to_halt(Cause.STALLED, "later")
    halt = attempt.halt
    assert halt is not None
    assert (halt.cause, halt.message) == ("interrupted", "stopped by Ctrl-C")
    assert not list(tmp_path.glob("*halt?*"))


def test_many_may_ask_to_halt_at_once_and_one_of_them_is_heard(tmp_path: Path) -> None:
    """A second signal within the handler of the first, and a timer's thread beside both."""
    for number in range(50):
        attempt = attempt_of(tmp_path / str(number), ["a"])

        def ask(*_: Any, attempt: Attempt = attempt) -> None:
            attempt.ask_to_halt(Cause.INTERRUPTED, "stopped by Ctrl-C")

        def send() -> None:
            for _ in range(3):
                os.kill(os.getpid(), signal.SIGUSR1)
                time.sleep(1e-4)

        before = signal.signal(signal.SIGUSR1, ask)
        try:
            threads = [threading.Thread(target=target) for target in (send, ask)]
            for thread in threads:
                thread.start()
            ask()
            for thread in threads:
                thread.join()
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert attempt.halt is not None
        assert {path.name for path in attempt.path.iterdir()} == {"run.json", "halt"}


def test_a_halt_that_cannot_be_written_raises_nothing(tmp_path: Path) -> None:
    Attempt(tmp_path / "none", "cell", 1, 1).ask_to_halt(Cause.INTERRUPTED, "stopped by Ctrl-C")


def test_without_hard_links_the_first_to_come_is_the_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """os.link stands in for that of FAT."""

    def no_links(*_: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    assert create_once(tmp_path / "halt", "first")
    assert not create_once(tmp_path / "halt", "second")
    assert (tmp_path / "halt").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["halt"]


def test_half_a_file_is_not_left_to_keep_others_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", full)
    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(OSError, match="No space left"):
        create_once(tmp_path / "halt", "first")
    assert list(tmp_path.iterdir()) == []


# --- which campaign -------------------------------------------------------------------------------


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Campaigns a, b and c; b was run last, though c was made last."""
    for number, name in enumerate("abc"):
        found = Campaign(tmp_path / f"campaign-{name}")
        with found.locked():
            write_json(found.path / "campaign.json", {})
        found.new_attempt("cell-00000000", 1)
        os.utime(found.lock, (number, number))
    os.utime(tmp_path / "campaign-b" / "lock", (50, 50))
    (tmp_path / ".ansible").mkdir()
    (tmp_path / "no-campaign").mkdir()
    write_json(tmp_path / "never-begun" / "campaign.json", {})
    return tmp_path


def test_the_campaign_run_last_is_the_newest(three: Path) -> None:
    assert [found.name for found in campaigns(three)] == [
        "campaign-b",
        "campaign-c",
        "campaign-a",
    ]
    assert find_campaign(three, None).name == "campaign-b"
    assert find_campaign(three, "campaign-a").name == "campaign-a"


def test_opening_a_campaign_makes_it_the_newest(three: Path) -> None:
    with Campaign(three / "campaign-a").locked():
        pass
    assert find_campaign(three, None).name == "campaign-a"


def test_a_wrong_name_is_answered_with_the_nearest(three: Path) -> None:
    with pytest.raises(UserError, match=r"no campaign 'campain-c' .*did you mean 'campaign-c'"):
        find_campaign(three, "campain-c")


def test_no_campaign_at_all_says_what_makes_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no campaigns under .* `python -m runner bench matrix"):
        find_campaign(tmp_path / "none", None)


def test_env_json_of_the_nodes_is_read_where_verify_left_one(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path / "c")
    campaign.inspected.mkdir(parents=True)
    for host, files in (("n1", {"env": {"schema": 1}}), ("n2", {"env": None}), ("n3", {})):
        (campaign.inspected / f"{host}.json").write_text(json.dumps({"files": files}))
    read = campaign.inspections()
    assert [read[host].files.get(ENV) for host in ("n1", "n2", "n3")] == [{"schema": 1}, None, None]


def test_a_checkup_forgets_and_numbers_its_probes(tmp_path: Path) -> None:
    found = checkup_of(tmp_path, "rack")
    assert (found.asked, found.node("n1")) == (None, Reply())
    write_json(found.path / "asked.json", {"at": 1.0, "nodes": {}})
    write_json(found.path / "env" / "n1.json", {"env": {}})
    assert found.node("n1").env == {}
    found.forget()
    assert (found.asked, found.node("n1")) == (None, Reply())
    assert [found.new_probe().path.name for _ in range(2)] == ["probe1", "probe2"]
    with (
        found.locked(),
        pytest.raises(UserError, match="another doctor asks the nodes of rack"),
        found.locked(),
    ):
        pass


# --- what cannot be read --------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 2}', "[" * 100_000, '{"schema": 1}'])
def test_an_unreadable_campaign_json_is_never_written_anew(begun: Campaign, text: str) -> None:
    """Its pins would be forgotten, and two mix in one campaign."""
    path = begun.path / "campaign.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"put back the campaign\.json that bench wrote, or move"):
        begun.open(MATRIX, CLUSTER)
    with pytest.raises(UserError, match=r"campaign\.json"):
        begun.fix_environment({"dataset default": {"x.bin": "1"}})
    assert path.read_text() == text


def test_a_campaign_json_of_another_version_is_named_as_that(begun: Campaign) -> None:
    (begun.path / "campaign.json").write_text('{"schema": 99}')
    with pytest.raises(UserError, match=r"campaign\.json is of another version .*: schema 99; put"):
        print(begun.settings)


def test_runs_without_a_campaign_json_are_no_new_campaign(begun: Campaign) -> None:
    (begun.path / "campaign.json").unlink()
    with pytest.raises(UserError, match=r"has runs and no campaign\.json, .*; put it back"):
        begun.open(MATRIX, CLUSTER)
    assert not (begun.path / "campaign.json").exists()


def test_repeats_without_a_seed_of_their_own_are_refused(begun: Campaign) -> None:
    path = begun.path / "campaign.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "seeds": [1, 2, 3]}))
    with pytest.raises(UserError, match=r"campaign.json: 3 seeds for 2 repeats of each cell"):
        print(begun.settings)


@pytest.mark.parametrize("more", [{"repeats": 10**9}, {"cells": 101}])
def test_a_campaign_json_with_more_runs_than_a_table_can_have_is_refused(
    begun: Campaign, more: dict[str, int]
) -> None:
    path = begun.path / "campaign.json"
    content = json.loads(path.read_text())
    content["repeats"] = more.get("repeats", MOST_REPEATS)
    content["cells"] = content["cells"][:1] * more.get("cells", 1)
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"campaign.json: (repeats is|its cells have 101000 runs)"):
        print(begun.settings)


def test_half_a_character_in_a_campaign_is_one_sentence(begun: Campaign) -> None:
    """JSON may hold one, and no file in UTF-8 can: `export` wrote the matrix with a traceback."""
    path = begun.path / "campaign.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "matrix": "x\ud800"}))
    with pytest.raises(UserError, match=r"campaign\.json: matrix has '.ud800', half a character"):
        print(begun.settings)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
@pytest.mark.parametrize("name", ["lock", "campaign.json", "outcome.json"])
def test_a_fifo_in_place_of_a_file_is_one_sentence_and_holds_nobody_up(
    begun: Campaign, name: str
) -> None:
    (attempt,) = begun.attempts(MATRIX.cells[0].id, 1)
    path = (attempt.path if name == "outcome.json" else begun.path) / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert not begun.is_locked()
    if name == "outcome.json":
        assert attempt.outcome == Outcome("unreadable", "", "outcome.json is not a plain file")
    elif name == "lock":
        with (
            pytest.raises(UserError, match=r"is not a plain file, .*; remove it"),
            begun.locked(),
        ):
            pass
    else:
        with pytest.raises(UserError, match=r"campaign\.json is not a plain file; put back"):
            print(begun.settings)


def test_folders_are_this_users_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        campaign = Campaign(tmp_path / "runs" / "m-rack")
        with campaign.locked():
            campaign.open(MATRIX, CLUSTER)
            attempt = campaign.new_attempt("cell-1", 1)
        write_json(attempt.path / names.node(0, "n1") / "done.json", {})
    finally:
        os.umask(before)
    folders = [path for path in (tmp_path / "runs").rglob("*") if path.is_dir()]
    assert len(folders) > 4
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "runs", *folders)}
    assert modes == {0o700}
