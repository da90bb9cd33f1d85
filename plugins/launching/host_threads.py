"""A thread per host, each within a task of Ansible's on that host: its variables, its connection.

A process of Ansible's a host takes 14 MiB and a part of a second; a thread takes next to nothing.
Ansible's own executor makes what the task is on each host. It is made for one thread, so hosts
begin one after the other; afterwards a thread does nothing of Ansible's but run commands over the
connection that is its own, and templates under a lock (action.py).
"""

from __future__ import annotations

import contextvars
import queue
import threading
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleError
from ansible.executor.task_executor import TaskExecutor
from ansible.playbook.play_context import PlayContext

from plugins.node_action import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugins.launching.action import LaunchAction

    Job = Callable[[LaunchAction, str], None]  # given the host's action, and its name


class HostThread(threading.Thread):
    """One host's task, which lasts, and does what it is given."""

    def __init__(self, host: str, executor: TaskExecutor) -> None:
        super().__init__(name=host, daemon=True)
        self.host, self.executor = host, executor
        self.jobs: queue.SimpleQueue[tuple[Job, Future[None]]] = queue.SimpleQueue()
        self.began = threading.Event()
        self.refusal = ""  # why Ansible has no task on that host
        self._context = contextvars.copy_context()

    def run(self) -> None:
        """Have Ansible begin the task, which comes to `serve`."""
        try:
            result = self._context.run(self.executor.run)
            self.refusal = str(result.get("msg") or "it ended")
        except Exception as error:
            self.refusal = one_line(error)
        self.began.set()

    def serve(self, action: LaunchAction) -> dict[str, Any]:
        """Do one job after another, as the host's task."""
        self.began.set()
        while True:
            job, future = self.jobs.get()
            try:
                future.set_result(job(action, self.host))
            except BaseException as error:
                future.set_exception(error)

    def do(self, job: Job) -> Future[None]:
        """Have a job done."""
        future: Future[None] = Future()
        self.jobs.put((job, future))
        return future


class HostThreads:
    """The hosts' threads, each from when it is first needed until the play ends."""

    def __init__(self, action: LaunchAction) -> None:
        self.action = action
        self._threads: dict[str, HostThread] = {}

    def each(self, hosts: Sequence[str], job: Job, refused: Callable[[str, str], None]) -> None:
        """Do a job on all hosts at once, and wait; `refused` is told why one has no task."""
        doing = []
        for host in hosts:
            try:
                thread = self._thread(host)
            except Exception as error:
                refused(host, f"Ansible has no task there: {one_line(error)}")
            else:
                doing.append(thread.do(job))
        wait(doing)
        for future in doing:
            future.result()

    def _thread(self, host: str) -> HostThread:
        thread = self._threads.get(host)
        if thread is None or not thread.is_alive():
            thread = self._threads[host] = HostThread(host, self._executor(host))
            thread.start()
            thread.began.wait()
            if thread.refusal:
                raise AnsibleError(thread.refusal)
        return thread

    def _executor(self, host: str) -> TaskExecutor:
        """Return what carries out this play's task on a host, as a worker of Ansible's has it."""
        action, hostvars = self.action, self.action.variables["hostvars"]
        inventory, manager = hostvars._inventory, hostvars._variable_manager
        task = action._task.copy(exclude_parent=True, exclude_tasks=True)
        task._parent = action._task._parent
        play, target = task.get_play(), inventory.get_host(host)
        return TaskExecutor(
            host=target,
            task=task,
            job_vars=manager.get_vars(play=play, host=target, task=task),
            # One of its own: that of another host has its address.
            play_context=PlayContext(
                play=play, connection_lockfd=action._play_context.connection_lockfd
            ),
            loader=action._loader,
            shared_loader_obj=action._shared_loader_obj,
            final_q=None,  # for loops and network devices
            variable_manager=manager,
        )
