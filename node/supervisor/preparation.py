"""Before a run: check the node, lay out the folder, leave a daemon that waits."""

from __future__ import annotations

import errno
import json
import os
import time

from node import trusted_folder
from node.causes import Cause
from node.program_output import os_error_words

from . import chain, scratch
from .answers import RefusedError
from .daemon import daemon
from .files import write
from .names import JOB, LEASE, RESERVE
from .ports import taken
from .processes import program_of
from .programs import leave
from .run_folder import limit_log, make_room, prune, shared_root
from .state import boot_id, host_name
from .surroundings import look_around

TYPE_CHECKING = False  # as typing's, whose import would cost each poll
if TYPE_CHECKING:
    from typing import Any

SENDS = ("node.supervisor.polling", "node.sampler")
RESERVE_BYTES = 64 * 1024  # freed before done.json is written: a full disk must not hide the end


def check(job: dict[str, Any]) -> list[str]:
    """Refuse what would fail later, by name; return what may disturb the run, in sentences."""
    scratch.sweep(job)
    for path, size in job.get("requires", {}).items():
        try:
            found = os.stat(path).st_size
        except OSError:
            raise RefusedError(Cause.MISSING, "%s is missing; run setup again" % path)
        if size is not None and found != size:
            raise RefusedError(
                Cause.CHANGED,
                "%s has %d bytes, not %d as setup recorded; run setup again" % (path, found, size),
            )
    if job["cwd"] != job["dir"] and not os.path.isdir(job["cwd"]):  # dir is made afterwards
        raise RefusedError(
            Cause.MISSING,
            "the working directory %s does not exist; create it on this node" % job["cwd"],
        )
    if job["argv"] and not program_of(job):
        raise RefusedError(Cause.MISSING, _cannot_start(job))
    notes = look_around(job)
    for port in job.get("ports", []):
        if taken(port):
            raise RefusedError(Cause.PORT_IN_USE, "port %d is already in use" % port)
    return notes


def _cannot_start(job: dict[str, Any]) -> str:
    """Say that a job's program is not there, and what to do."""
    name: str = job["argv"][0]
    if "/" not in name:
        return "%s is not on this node's PATH; install it, or write its path" % name
    path = os.path.normpath(os.path.join(job["cwd"], name))
    ours = path.startswith(os.path.join(os.path.dirname(job["runs"]), ""))
    cure = "run setup again" if ours else "copy it to this node, and make it executable (chmod +x)"
    return "%s cannot be executed; %s" % (path, cure)


def lay_out(job: dict[str, Any]) -> None:
    """Make the run's folder, and write the files of the job into it."""
    os.makedirs(job["dir"], mode=0o700)
    for name, text in job.get("files", {}).items():
        write(os.path.join(job["dir"], name), text)
    write(os.path.join(job["dir"], RESERVE), "." * RESERVE_BYTES)


def prepare(job: dict[str, Any]) -> dict[str, Any]:
    """Check the node, lay out the run's folder, and leave a daemon that waits for `go`.

    `job`: run_id, runs (folder of all runs), dir (this run's folder), argv, env, cwd, files
    (name to text, written into dir), requires (path to size in bytes or null), ports, device,
    device_ids, time_limit_s, lease_s, grace_s, log_limit_bytes; mark (the same on every
    node of the run); scratch (a folder on a disk of the node's own, or ""); after (argvs); programs
    (where these modules are kept); secrets (variables that are written into no file).
    """
    secrets = job.pop("secrets", {})
    try:
        os.makedirs(job["runs"], mode=0o700, exist_ok=True)
        trusted_folder.check(job["runs"], trusted_folder.own_groups(), above=False)
        notes = check(job) + scratch.notes(job)
        make_room(job["dir"])
        prune(job)
        limit_log(job)
        scratch.make(job)
        chain.begin(job)
        # Of this run alone: another checkout may run the same campaign below another root.
        job.setdefault("mark", "%s#%s" % (job["dir"], os.urandom(8).hex()))
        job["hostname"] = host_name()
        try:
            lay_out(job)
        except FileExistsError:  # there was none a moment ago
            raise shared_root(job["dir"], "another node")
        leave(job["programs"], job["dir"])
        write(os.path.join(job["dir"], JOB), json.dumps(job))
        write(os.path.join(job["dir"], LEASE), "%g" % job["lease_s"])
        job["env"] = dict(job["env"], **secrets)
    except RefusedError as refusal:
        return {"refused": refusal.cause, "message": str(refusal)}
    except trusted_folder.UntrustedError as error:
        return {"refused": Cause.IO_ERROR, "message": str(error)}
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        cause = Cause.DISK_FULL if full else Cause.IO_ERROR
        message = "cannot prepare %s: %s" % (job["dir"], os_error_words(error, job["dir"]))
        return {"refused": cause, "message": message}
    hear, tell = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.close(hear)
            daemon(job, tell)
        os._exit(0)
    os.wait()
    os.close(tell)
    with os.fdopen(hear, "rb") as stream:
        answer = stream.read()  # until the daemon closes its end: it is ready, or it gave up
    refused = json.loads(answer.decode()) if answer else {}
    return {"now": time.time(), "boot_id": boot_id(), "noted": notes, **refused}
