"""The engine whose nodes Slurm gives when a job starts: no ssh, no root, a shared folder."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from node.files import read_json
from node.fingerprint import fingerprints
from runner.base.dataclass_schema import read
from runner.base.errors import UserError
from runner.base.streams import complain
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.campaign import Campaign
from runner.folder.checkup import Checkup
from runner.folder.lock import HeldFolder
from runner.folder.stored import write_json, write_script
from runner.launch.engine import NO_QUEUE, Stopped, Surveyed, Wanted
from runner.launch.slurm import commands, handover
from runner.launch.slurm.allocation import OUR_JOB, Allocating, Span, asked_for, span_of
from runner.launch.slurm.by_hand import job_by_hand
from runner.launch.slurm.job import Jobs
from runner.launch.slurm.job_script import trial_script
from runner.launch.slurm.looking_in import look_in
from runner.launch.slurm.preview import preview
from runner.launch.slurm.queue import Queue
from runner.launch.slurm.secrets import reveal
from runner.launch.slurm.stopping import has_jobs, stop
from runner.launch.slurm.survey import survey
from runner.terms.cluster import Cluster
from runner.terms.engines.engine_settings import Placement
from runner.terms.engines.slurm import Slurm
from runner.terms.inspected import Inspected, Sought
from runner.terms.orders import Orders
from runner.terms.run import Run

CHECKUP_S = 1_800.0  # that doctor may take, beside the margin of a job
UNAVAILABLE = "configuration is not available"
ALLOCATION_S = 5.0  # between two questions whether an allocation has begun, at most


class SlurmEngine:
    """Hands runs to Slurm from a login node: as jobs, or as steps of one allocation."""

    def __init__(self, cluster: Cluster, runs: Path) -> None:
        assert isinstance(cluster.engine, Slurm)
        self.cluster = cluster
        self.runs = runs
        self.slurm = slurm = cluster.engine
        # Nodes of an allocation that has begun wait for us.
        self.queue = Queue() if slurm.mode == "job" else Queue(ALLOCATION_S)
        self.jobs = Jobs(self.slurm, self.queue, {})
        self.nodes: Allocating | None = None

    @property
    def at_once(self) -> int:
        """Do as Engine's."""
        return self.slurm.most_jobs if self.slurm.mode == "job" else 1

    @contextmanager
    def claimed(
        self, wanted: Wanted, campaign: Path, cancelled: Callable[[], bool]
    ) -> Iterator[None]:
        """Do as Engine's: in mode `allocation`, hold the nodes of all cells.

        What the nodes brought is packed once no node waits for us.
        """
        self.try_out(wanted, campaign)
        write_json(campaign / names.SWITCHES, {"leaves": commands.switches()})
        secrets = reveal(self.cluster, campaign.parent)
        self.jobs = replace(self.jobs, secrets=secrets)
        try:
            if self.slurm.mode == "job":
                yield
                self.jobs.leaving.see_off(cancelled)
                return
            with self.allocated(self.queue, secrets, span_of(wanted), campaign, cancelled):
                yield
        finally:
            handover.put_away(campaign)

    @contextmanager
    def gathered(self, folder: Path, cancelled: Callable[[], bool]) -> Iterator[None]:
        """Do as Surveyor's: an allocation, in mode `job`, too."""
        nodes = 1 if os.environ.get(OUR_JOB) else self.slurm.nodes  # what there is of our own
        span = Span(nodes, self.cluster.nodes[0].devices, CHECKUP_S, CHECKUP_S)
        with self.allocated(Queue(ALLOCATION_S), {}, span, folder, cancelled):
            yield

    @contextmanager
    def allocated(
        self,
        queue: Queue,
        secrets: Mapping[str, str],
        span: Span,
        folder: Path,
        cancelled: Callable[[], bool],
    ) -> Iterator[None]:
        """Have runs go through an allocation while the block lasts."""
        nodes = Allocating(self.cluster, self.slurm, queue, secrets, span, folder)
        with nodes.held(cancelled):
            self.nodes = nodes
            try:
                yield
            finally:
                self.nodes = None

    def survey(self, checkup: Checkup, roles: bool, cancelled: Callable[[], bool]) -> Surveyed:
        """Do as Surveyor's; roles are asked on the login node, by verify.yml."""
        assert self.nodes is not None  # it is asked within `gathered`
        return survey(self.nodes.granted(cancelled), self.slurm, checkup, cancelled)

    def try_out(self, wanted: Wanted, campaign: Path) -> None:
        """Ask Slurm whether it would take such jobs, before any is in its queue.

        Raises UserError with Slurm's own words.
        """
        if self.slurm.mpi and self.slurm.mpi not in (types := commands.mpi_types()):
            raise UserError(
                f"slurm_mpi: srun knows no {self.slurm.mpi} here, but {', '.join(types)}"
            )
        script = campaign / names.TRIAL
        try:
            for text, title in self.trials(wanted).items():
                write_script(script, text)
                why = commands.test_only(script)
                # It says the same of what no node has, and of nodes that are down or drained.
                if why and UNAVAILABLE in why and not (why := commands.refused(script)):
                    complain(
                        f"nodes for {title} are down or drained (`sinfo -R`): it waits for them"
                    )
                if why:
                    raise UserError(f"Slurm would not take {title}: {why}")
        finally:
            script.unlink(missing_ok=True)

    def trials(self, wanted: Wanted) -> dict[str, str]:
        """Return the jobs that Slurm is asked about, to what each is in words."""
        if self.slurm.mode == "job":
            time_s = wanted.time_limit_s
            trials = (
                (self.trial(c.placement, c.nodes, c.devices_per_node, time_s), c.name)
                for c in wanted.cells
            )
            return {text: f"the job of cell {name}" for text, name in trials}
        if os.environ.get(OUR_JOB):
            return {}  # it was granted
        span = asked_for(self.slurm, span_of(wanted))
        text = self.trial({}, span.nodes, span.devices, span.time_s)
        return {text: "the job that holds the nodes"}

    def trial(self, placement: Placement, nodes: int, devices: int, time_s: float) -> str:
        """Write a job that Slurm is asked about."""
        return trial_script(self.slurm, placement, nodes=nodes, devices=devices, time_s=time_s)

    def inspect(
        self,
        hosts: Sequence[str],
        asked: Sought,
        campaign: Campaign,
        cancelled: Callable[[], bool],
    ) -> Mapping[str, Inspected]:
        """Do as Engine's: this login node sees the folder that all nodes will share."""
        files = {name: read_json(path) for name, path in asked.paths.items()}
        relied_names: dict[str, dict[str, str]] = {}
        relied = fingerprints(asked.folders, asked.pythons, asked.apart, relied_names)
        facts = {"files": files, "relied": relied, "relied_files": relied_names}
        return {"the login node": read(Inspected, facts)}

    def run(
        self, folder: HeldFolder, run: RunFolder, orders: Orders, cancelled: Callable[[], bool]
    ) -> str:
        """Do as Engine's."""
        if self.nodes is None:
            return self.jobs.run(folder, run, orders, cancelled)
        nodes = self.nodes.granted(lambda: cancelled() or run.halt is not None)
        return nodes.run(folder, run, orders, cancelled)

    def hand_over(self, folder: HeldFolder, run: RunFolder, orders: Orders) -> bool:
        """Do as Engine's: in mode `job`."""
        if self.slurm.mode != "job":
            raise UserError(NO_QUEUE)
        return self.jobs.submit(folder, run, orders) is not None

    @staticmethod
    def look_in(campaign: Campaign) -> None:
        """Do as EngineMaker's."""
        look_in(campaign)

    def goes_on(self, run: RunFolder) -> bool:
        """Do as Engine's; a step ends with the bench that started it."""
        return self.slurm.mode == "job" and self.jobs.goes_on(run)

    def by_hand(self, run: Run) -> tuple[str, str]:
        """Do as Engine's."""
        return names.JOB_SCRIPT, job_by_hand(self.slurm, run)

    def waiting(self, run: RunFolder) -> str:
        """Do as Engine's."""
        submitted = handover.submitted(run)
        if submitted is None or run.placement is not None:
            return ""
        if submitted.job_id is None:
            return run.queued.words() if run.queued else ""
        return self.queue.words(submitted.job_id)

    def preview(
        self, campaign: Campaign, runs: Sequence[Run], repeats: int
    ) -> Iterator[Mapping[str, Any]]:
        """Do as Engine's."""
        return preview(self.slurm, self.cluster, campaign, runs, repeats)

    def stop(self, cancelled: Callable[[], bool]) -> Stopped:
        """Do as Engine's: all campaigns' jobs."""
        campaign_files = sorted(self.runs.glob(f"*/{names.CAMPAIGN}"))
        return self.stop_campaigns([Campaign(path.parent) for path in campaign_files], cancelled)

    @staticmethod
    def stop_campaigns(campaigns: Sequence[Campaign], cancelled: Callable[[], bool]) -> Stopped:
        """Do as EngineMaker's, if only an allocation was ever asked for."""
        with_jobs = [campaign for campaign in campaigns if has_jobs(campaign)]
        return stop(with_jobs, cancelled), with_jobs
