"""Run one recorded run once more: one's own as it was recorded, a stranger's planned again.

The new run is in a campaign of its own, `rerun-<campaign>`, as one more repeat of its cell, so
that the old campaign's table stays what it was. Of a run that bench made for this user the recorded
command runs, not what this version would plan today; it is refused where the inventory is not what
it was. Of anybody else's the cell alone is taken: it is planned on one's own inventory, as `bench`
plans it, and runs only as it was shown. What is installed must be what was recorded of either.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from node import parsing
from node.files import read_start
from node.schema import UnfitError
from runner import __version__
from runner.base.dataclass_schema import shape
from runner.base.errors import UserError
from runner.base.paths import existing_path
from runner.base.text import listing
from runner.folder import names, own_runs
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.judge.decide import is_finished
from runner.launch import inspection
from runner.launch.bench import Tally, kept_if_begun
from runner.launch.engine import Engine, Wanted
from runner.launch.interrupts import Interrupts
from runner.launch.launcher import Launcher
from runner.launch.view import View
from runner.matrix.cells import public_env
from runner.plan import checks
from runner.plan.make import make_run
from runner.plan.usage import uses
from runner.systems.common.registry import load_system
from runner.terms.cell import SEED, AskedCell, Cell, Matrix
from runner.terms.cluster import Cluster
from runner.terms.orders import NodeRun
from runner.terms.run import Run
from runner.terms.settings import Settings


@dataclass(frozen=True)
class Recorded:
    """A run that was made, its campaign, and whether bench made it here for this user."""

    attempt: Attempt
    campaign: Campaign
    settings: Settings
    run: Run
    own: bool

    @property
    def target(self) -> str:
        """The name of the campaign that its reruns are in."""
        name = self.run.campaign
        return name if name.startswith("rerun-") else f"rerun-{name}"


def recorded(path: Path) -> Recorded:
    """Read the run in a folder. Raises UserError where it holds none that can be run again."""
    path = path.resolve()
    file = path / names.RUN
    if file.is_symlink():
        raise UserError(f"{file} is a link, which bench does not make; it is refused")
    try:
        content = read_start(file, parsing.MOST_BYTES + 1)  # once: checked and run as these bytes
    except OSError:
        below = sorted(path.glob(f"**/{names.RUN}"))
        hint = f"; name a run's folder, such as {below[-1].parent}" if below else ""
        raise UserError(f"there is no {names.RUN} in {path}{hint}") from None
    try:
        run: Run = parsing.parse(content or b"", shape(Run), str(file))
    except UnfitError as error:
        raise UserError(f"{error}, so this version cannot run it again") from None
    if run.imported is not None:
        raise UserError(f"{path} was imported from a log, and no command of it is known")
    campaign = Campaign(path.parents[2])
    attempt = Attempt(path, run.cell.id, run.repeat, run.attempt)
    return Recorded(
        attempt, campaign, campaign.settings, run, own_runs.is_own(file, content or b"")
    )


def of_bundle(campaign: Campaign, cell: str | None, repeat: int | None) -> Recorded:
    """Choose a run of a campaign: a cell by its name or id, the first repeat that is ok, or that.

    Raises UserError where there is no such run, or several cells and none is named.
    """
    asked = campaign.settings.asked()
    matches = [
        (asked_cell, number)
        for asked_cell, number in asked
        if cell in (None, asked_cell.name, asked_cell.id)
    ]
    cells = dict.fromkeys(asked_cell.name for asked_cell, _ in matches)
    if len(cells) != 1:
        names_of_all = dict.fromkeys(asked_cell.name for asked_cell in campaign.settings.cells)
        problem = f"there is no cell {cell!r}" if cell else "it has several cells"
        raise UserError(
            f"{campaign.name}: {problem}; name one with --cell: {listing(list(names_of_all), 8)}"
        )
    attempts = [
        attempt
        for asked_cell, number in matches
        if repeat in (None, number)
        for attempt in campaign.attempts(asked_cell.id, number)[-1:]
    ]
    good = [attempt for attempt in attempts if (end := attempt.outcome) and end.status == "ok"]
    if not attempts:
        raise UserError(
            f"{campaign.name}: no run of {next(iter(cells))} was recorded; name another"
        )
    return recorded((good or attempts)[0].path)


def inventory(recorded: Recorded) -> Path:
    """Return the inventory that a run's campaign names, of inventory/."""
    name = recorded.settings.inventory
    path = existing_path(f"inventory/{name}")
    if not path.exists():
        raise UserError(f"the run was made on the inventory {name}; name it with -i")
    return path


def adopted(recorded: Recorded, cluster: Cluster) -> Recorded:
    """Return a stranger's run as one of this cluster: its cell, checked as a matrix's is.

    Raises UserError where the cluster cannot have it.
    """
    run, cell = recorded.run, recorded.run.cell
    system = load_system(cell.system)
    parameters = system.recorded(cell.parameters, f"cell {cell.name}")
    public_env(cell.env, f"cell {cell.name}: env")
    # Its id is of what runs, not what the file says. Runs with seeds are repeats of one cell.
    seed = {SEED: None} if recorded.settings.seeds else {}
    renamed_cell = replace(cell, id="", parameters={**parameters, **seed})
    cell = replace(renamed_cell, parameters=parameters)
    checks.check_cells([cell], cluster, run.warmup_iters)
    if lacking := sorted(set(run.secrets) - set(cluster.secrets)):
        raise UserError(
            f"the run is given the secrets {', '.join(lacking)}, which the inventory"
            f" {cluster.name} does not have; set them in its cluster_env"
        )
    settings = replace(recorded.settings, inventory=cluster.name, inventory_digest=cluster.digest)
    run = replace(run, cell=cell, rerun_of=run.rerun_of or run.id)
    return replace(recorded, run=run, settings=settings, own=False)


def next_run(recorded: Recorded, cluster: Cluster, runs: Path) -> Run:
    """Plan the next rerun of an adopted run, as it would run now. Writes nothing."""
    target, cell = Campaign(runs / recorded.target), recorded.run.cell
    return _planned(recorded, cluster, target.next_attempt(cell.id, _next_repeat(target, cell)))


def _planned(
    recorded: Recorded,
    cluster: Cluster,
    attempt: Attempt,
    sizes: Mapping[str, Mapping[str, int]] | None = None,
) -> Run:
    """Plan an adopted run's cell as bench does, with those secrets alone that it was given."""
    was = recorded.run
    matrix = Matrix(
        recorded.target,
        (was.cell,),
        warmup_iters=was.warmup_iters,
        time_limit_s=was.limits.time_limit_s,
        stall_limit_s=was.limits.stall_limit_s,
    )
    run = make_run(
        matrix,
        was.cell,
        replace(cluster, secrets=was.secrets),
        campaign=recorded.target,
        repeat=attempt.repeat,
        attempt=attempt.number,
        dataset_sizes=sizes[was.cell.dataset] if sizes and was.cell.dataset else None,
        folder=PurePosixPath(attempt.path.resolve()),
    )
    return replace(run, rerun_of=was.rerun_of)


def rerun(
    recorded: Recorded,
    cluster: Cluster,
    *,
    engine: Engine,
    view: View,
    runs: Path,
    agreed: Callable[[Run], bool] = lambda _: False,
) -> tuple[Attempt, Campaign, Tally]:
    """Make the run again, in a campaign below `runs`.

    Of a stranger's, `agreed` says whether a person has seen and allowed just what is to run.
    Raises UserError where the machines are not what they were, or something else would run.
    """
    if recorded.own and (differs := list(differences(recorded.run, cluster))):
        raise UserError(
            f"the inventory {cluster.name} is not what the run was made on: {'; '.join(differs)};"
            " set it back, or begin a new campaign with bench"
        )
    cell = recorded.run.cell
    target = Campaign(runs / recorded.target)
    interrupts = Interrupts()
    with target.locked(cluster.group), interrupts.handled(), kept_if_begun(target):
        repeat = _open(target, recorded)
        view.begin(target, 1, uses([cell], cluster), {})
        wanted = Wanted([cell], recorded.run.limits.time_limit_s)
        with engine.claimed(wanted, target.path, interrupts.once):
            sizes = inspection.inspect(engine, target, cluster, [cell], interrupts.once)
            launcher = Launcher(engine, cluster, target, view, interrupts)
            planned = launcher.going_on(cell.id, repeat)
            if planned is None:
                attempt = target.next_attempt(cell.id, repeat)
                if recorded.own:
                    run = _again(recorded.run, target.name, attempt)
                else:
                    run = _planned(recorded, cluster, attempt, sizes)
                    if not agreed(run):
                        raise UserError("the run is not what was shown any more; start it again")
                planned = launcher.write(attempt, run)
            ended = launcher.once(planned)
        ok = ended.status == "ok"
        tally = Tally(int(ok), int(not ok), 0, interrupts.count > 0)
        view.end(tally)
    return planned.attempt, target, tally


def differences(run: Run, cluster: Cluster) -> Iterator[str]:
    """Say what of a recorded run an inventory says otherwise today, each in a few words."""
    hosts = [node.host for node in cluster.nodes[: len(run.nodes)]]
    if hosts != [node.host for node in run.nodes]:
        was_hosts = ", ".join(node.host for node in run.nodes)
        yield f"its nodes changed from {was_hosts} to {', '.join(hosts)}"
        return
    if cluster.nodes[0].address != run.master_address:
        now = cluster.nodes[0].address
        yield f"the address of {hosts[0]} changed from {run.master_address} to {now}"
    for node, machine in zip(run.nodes, cluster.nodes, strict=False):
        if node.runs != str(machine.root / "runs"):
            root = Path(node.runs).parent
            yield f"the root of {node.host} changed from {root} to {machine.root}"
        if machine.devices < run.cell.devices_per_node:
            yield f"{node.host} has {machine.devices} devices, not {run.cell.devices_per_node}"
        for key, value in cluster.env.items():
            was = node.env.get(key)
            if was != run.cell.env.get(key, value):
                before = "not set" if was is None else was
                yield f"{key} on {node.host} changed from {before} to {value}"


def _open(target: Campaign, recorded: Recorded) -> int:
    """Make the campaign of reruns, or take the cell into it; the repeat that comes next."""
    source, cell = recorded.settings, recorded.run.cell
    settings = target.recorded or replace(
        source,
        table={},
        published=(),
        repeats=1,
        seeds=(),  # each rerun's stands in its run.json
        shuffle_seed=None,
        cells=(),
        environment=None,
        trainbench=__version__,
        created_at=time.time(),
    )
    cells = {asked_cell.id: asked_cell for asked_cell in settings.cells}
    if any(asked_cell.repeats is None for asked_cell in settings.cells):
        raise UserError(f"campaign {target.name} is of a matrix, not of reruns; move it away")
    asked = cells.get(cell.id, AskedCell(**vars(cell), repeats=0))
    repeat = _next_repeat(target, cell)
    system = load_system(cell.system)
    parameters = system.recorded(cell.parameters, f"cell {cell.name}")
    expected_cell = system.fingerprinted(replace(cell, parameters=parameters))
    pins = {
        name: value for name, value in (source.environment or {}).items() if name in expected_cell
    }
    cells[cell.id] = replace(asked, repeats=repeat)
    environment = {**(settings.environment or {}), **pins}
    target.write(replace(settings, cells=tuple(cells.values()), environment=environment))
    return repeat


def _next_repeat(target: Campaign, cell: Cell) -> int:
    """Return the number of a cell's next rerun."""
    cells = target.recorded.cells if target.recorded else ()
    repeat = next((asked_cell.repeats or 0 for asked_cell in cells if asked_cell.id == cell.id), 0)
    attempts = target.attempts(cell.id, repeat) if repeat else []
    # One that something outside ended, as a busy node does, is made again, not once more.
    return repeat if attempts and not is_finished(attempts[-1].outcome) else repeat + 1


def _again(run: Run, campaign: str, attempt: Attempt) -> Run:
    """Plan the same run under another name: whatever names its folder names the new one."""
    now = f"{campaign}/{attempt.cell_id}/r{attempt.repeat}a{attempt.number}"
    renamed = {run.id: now}
    folder = PurePosixPath(run.nodes[0].dir)
    if folder.match(names.node(0, run.nodes[0].host)):  # in a folder that the nodes shared
        renamed[str(folder.parents[1])] = str(attempt.path.resolve())
    nodes = [NodeRun(**_renamed(vars(node), renamed)) for node in run.nodes]
    return replace(
        run,
        campaign=campaign,
        repeat=attempt.repeat,
        attempt=attempt.number,
        nodes=tuple(nodes),
        rerun_of=run.rerun_of or run.id,
    )


def _renamed(value: Any, renamed: Mapping[str, str]) -> Any:
    """Return a value with each name in its texts replaced by another."""
    if isinstance(value, str):
        for was, now in renamed.items():
            value = value.replace(was, now)
        return value
    if isinstance(value, dict):
        return {key: _renamed(item, renamed) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_renamed(item, renamed) for item in value)
    return value
