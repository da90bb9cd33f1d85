"""A play that carries out one order after another, so that Ansible starts once for many runs."""

import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path

from runner.launch.play import Played
from runner.launch.private import private_folder
from runner.launch.ssh.play_pipe import DONE, Gate, Order

LOOK_S = 0.25  # between two looks whether the user still waits
LEAVE_S = 30.0  # for what Ansible leaves behind, where it was killed, to end the run on its nodes
END_S = 10.0  # for a play without orders to end by itself

Begin = Callable[[Path, Callable[[], bool]], Played]  # given the gate, and whether it is cancelled


class StandingPlay:
    """A play in a thread of this process, which waits at a gate for what it is to do."""

    def __init__(self, begin: Begin, folder: Path) -> None:
        self.gate = Gate(folder)
        self.cancelled = threading.Event()
        self._played: Future[Played] = Future()
        self._thread = threading.Thread(
            target=self._play, args=(begin, folder), name="play", daemon=True
        )
        self._thread.start()

    def _play(self, begin: Begin, folder: Path) -> None:
        try:
            self._played.set_result(begin(folder, self.cancelled.is_set))
        except BaseException as error:  # for who waits: a full disk here, above all
            self._played.set_exception(error)

    @property
    def lives(self) -> bool:
        """Whether it can be given an order."""
        self.gate.hear(0.0)
        return self._thread.is_alive() and not self.gate.closed

    def carry_out(self, order: Order, cancelled: Callable[[], bool]) -> str:
        """Have an order carried out; return Ansible's words where it died over it.

        Where it is cancelled, Ansible is killed, and nobody waits for its nodes. Raises what kept
        Ansible from being run.
        """
        self.gate.tell(order)
        ended: float | None = None
        while not self.gate.closed:
            if DONE in self.gate.hear(LOOK_S):
                return ""
            if cancelled():
                self.cancelled.set()
                break
            if self._thread.is_alive():
                continue
            ended = ended or time.monotonic()
            if not self.gate.came or self._played.exception() or time.monotonic() - ended > LEAVE_S:
                break
        self._thread.join(END_S)
        return self._played.result().words if self._played.done() else ""

    def end(self) -> None:
        """Let it end; kill it where it does not."""
        self.gate.close()
        self._thread.join(END_S)
        self.cancelled.set()
        self._thread.join(END_S)


class Plays:
    """The standing play of an engine: it begins with the first order, and again if it died."""

    def __init__(self, begin: Begin, private: Path) -> None:
        self._begin, self._private = begin, private
        self._held = ExitStack()
        self._play: StandingPlay | None = None

    def carry_out(self, order: Order, cancelled: Callable[[], bool]) -> str:
        """Do as StandingPlay's."""
        if self._play is None or not self._play.lives:
            self.close()
            folder = self._held.enter_context(private_folder(self._private))
            self._held.callback(shutil.rmtree, folder, ignore_errors=True)
            self._play = StandingPlay(self._begin, folder)
            self._held.callback(self._play.end)
        return self._play.carry_out(order, cancelled)

    def close(self) -> None:
        """End the play, if one goes on."""
        self._play = None
        self._held.close()
