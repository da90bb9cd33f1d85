"""Ask a node what it is, from the control node, and compare all of them there.

    survey: {operation: begin, out_dir: DIR}             forget what was found last time
    survey: {operation: read, out_dir: DIR, spec: ...}   one node: node/facts/, its clock
    survey: {operation: report, out_dir: DIR, ...}       all nodes: runner.doctor's comparison

DIR is a folder of the control node (runner/folder/checkup.py reads it):

    env/<host>.json   {"env": what that printed, "expected": ...} or {"unreachable": why}
    asked.json        the nodes, who was lost on the way, and what the roles' verify entries said

The comparison is pure code of the runner, and runs in a process of its own, by the Python that
runs Ansible: roles know nothing of it but its exit code.
"""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.utils.display import Display

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from node.facts.kinds import ENVIRONMENT
from node.printable import printable_lines
from node.schema import Number, UnfitError
from plugins.node_action import MOST_WORDS, NodeAction, one_line, save
from runner.folder import names

PROJECT = Path(__file__).resolve().parents[3]
# Not a program of node/: what it takes to receive one would count as the network's delay.
CLOCK = "import time; print('TRAINBENCH', time.time())"
SECONDS = Number(0, 1e11)
READ_S = 600.0  # for a node to say what it is: each of its tools has half a minute
GOOD_DELAY_S = 0.15  # of one exchange: a cold connection takes longer, so it is asked once more


class ActionModule(NodeAction):
    """`survey:` with an `operation` and `out_dir`, as the file's first lines say."""

    default_python = "python3"

    def act(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        out_dir = Path(str(arguments["out_dir"]))
        if arguments["operation"] == "read":
            return {"changed": False, **self._read(out_dir, arguments, variables)}
        if arguments["operation"] == "report":
            return {"changed": False, **self._report(out_dir, arguments, variables)}
        shutil.rmtree(out_dir / names.ENVS, ignore_errors=True)
        (out_dir / names.ASKED).unlink(missing_ok=True)
        return {"changed": False}

    # -- one node ------------------------------------------------------------------------------

    def _read(
        self, out_dir: Path, arguments: dict[str, Any], variables: dict[str, Any]
    ) -> dict[str, Any]:
        host = str(variables["inventory_hostname"])
        path = out_dir / names.ENVS / names.of_host(host)
        spec = dict(arguments["spec"])
        self.patience_s = READ_S
        try:
            spec["time"] = self._clock(float(arguments.get("clock_offset_s") or 0))
            spec["write"] = bool(spec.get("write")) and not self._task.check_mode
            env = self.ask("facts.record:read", spec, ENVIRONMENT)
        except (AnsibleConnectionFailure, AnsibleError, UnfitError) as error:
            save(path, {"unreachable": one_line(error)})
            raise
        save(path, {"env": env, "expected": arguments.get("expected") or {}})
        roles = [str(role) for role in arguments.get("roles") or []]
        # setup brings conda to the nodes where no other Python will do
        return {"roles": [role for role in roles if role != "conda" or env.get("conda")]}

    def _clock(self, injected_s: float) -> dict[str, float]:
        """The node's clock against ours: offset and bound of its error, in seconds.

        The offset is the node's time less the middle of the exchange, its error at most half of
        the exchange (RFC 5905, section 8, with one timestamp on the node). The shortest of up to
        three exchanges counts, as in that protocol's clock filter.
        """
        best: tuple[float, float] | None = None
        for _ in range(3):
            sent_at, began = time.time(), time.monotonic()
            argv = [self.python, "-I", "-S", "-c", CLOCK]
            now = self.expect(self.exchange(argv, kind=SECONDS, where="its clock"))
            delay = time.monotonic() - began
            if best is None or delay < best[0]:
                best = (delay, now - (sent_at + delay / 2))
            if delay < GOOD_DELAY_S:
                break
        assert best is not None
        return {"offset_s": round(best[1] + injected_s, 4), "error_s": round(best[0] / 2, 4)}

    # -- all of them ---------------------------------------------------------------------------

    def _report(
        self, out_dir: Path, arguments: dict[str, Any], variables: dict[str, Any]
    ) -> dict[str, Any]:
        hosts = [str(host) for host in arguments["hosts"]]
        alive = set(variables["ansible_play_hosts"])
        nodes, conda = {}, False
        for host in hosts:
            its = variables["hostvars"][host]
            conda |= "conda" in its.get("__verify_read", {}).get("roles", [])
            failures = its.get("__verify_failures", [])
            nodes[host] = {
                "lost": host not in alive,
                "failures": [
                    {"role": str(failure["role"]), "message": failure_excerpt(failure["result"])}
                    for failure in failures
                ],
            }
        roles = [str(role) for role in arguments.get("roles") or [] if conda or role != "conda"]
        questions = {"schema": 1, "at": time.time(), "roles": roles, "nodes": nodes}
        save(out_dir / names.ASKED, {**questions, "inventory": inventory_path(variables)})
        if not arguments.get("compare", True):
            return {"faults": {}}
        argv = [str(arguments["python"]), "-m", "runner", "doctor", "--format", "json"]
        completed = subprocess.run(
            [*argv, "--from", str(out_dir)],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=False,
        )
        if not completed.stdout:
            raise AnsibleError(f"the nodes cannot be compared: {completed.stderr.strip()}")
        answer = json.loads(completed.stdout)
        Display().display(answer["text"].rstrip())
        return {"faults": answer["faults"], "text": answer["text"].rstrip()}


def inventory_path(variables: dict[str, Any]) -> str:
    """Return the inventory's path as it was given, for cures; empty without one."""
    sources = variables.get("ansible_inventory_sources") or [""]
    return str(sources[0]) if len(sources) == 1 and str(sources[0]).isprintable() else ""


def failure_excerpt(result: Any) -> str:
    """Return a failed task's own words, printable, and the first of them where they are many."""
    return printable_lines(message(result)[:MOST_WORDS])


def message(result: Any) -> str:
    """A failed task's own words, whole: its loop's items, what it printed, or Ansible's message."""
    if not isinstance(result, dict):
        return str(result)
    if result.get("_ansible_no_log"):
        return "it failed, and its output is not shown (no_log)"
    item_messages = [
        message(item)
        for item in result.get("results") or []
        if isinstance(item, dict) and (item.get("failed") or item.get("unreachable"))
    ]
    if item_messages:
        return "\n".join(item_messages)
    outputs = [str(result.get(key) or "").strip() for key in ("stderr", "stdout")]
    text = str(result.get("msg") or "").strip()
    # The module's own message for a failed command says no more than that.
    if text == "non-zero return code" or not text:
        text = next((word for word in outputs if word), text or "it failed, and said nothing")
    return text
