"""What is there and what is to do, of our environment or of somebody else's: no change."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from node.files import read_text

from .environment import EnvError, Environment
from .interpreter import config_program, interpreter, probe
from .lock import drifted, frozen, header
from .packages import installed
from .pins import fits, pins_of
from .plan import plan

if TYPE_CHECKING:
    from .pins import Spec


def look(spec: Spec) -> Spec:
    """What is there, and what is to do."""
    env = Environment(spec)
    if spec["existing"]:
        return look_at_existing(env)
    ours = env.facts and "pip" in env.packages and not os.path.islink(env.path)
    if ours and fits(env.version, spec["python"]):
        faults, todo = plan(spec, env.packages, env.version, env.lock, env.record)
        expected = config_program(env.facts)
        if expected and read_text(env.config) != expected:
            faults.append(f"{env.config} is not that of its Python")
            todo.insert(0, {"what": "config", "words": "write python3-config"})
        return {**env.summary(), "faults": faults, "todo": todo, "make": "", "from": ""}
    fault = f"{env.path} is not there"
    if os.path.islink(env.path):
        fault = f"{env.path} is a link to somebody else's environment"
    elif env.facts and not fits(env.version, spec["python"]):
        fault = f"{env.path} has Python {env.version}, not {spec['python']}"
    elif env.facts:
        fault = f"{env.path} has no pip"
    elif os.path.exists(env.path):
        fault = f"{env.path} has no Python that runs"
    path, why = interpreter(spec)
    env.version = probe(path)["version"] if path else spec["python"]
    if not path and not spec["python"]:
        raise EnvError(f"{why}; name another Python with python_env_interpreter")
    env.packages = {}
    todo = plan(spec, {}, "", [], {})[1]
    make = "venv" if path else "conda"
    return {**env.summary(), "faults": [fault], "todo": todo, "make": make, "from": path or why}


def look_at_existing(env: Environment) -> Spec:
    """Somebody else's environment: linked as it is, never changed.

    Any version of a pin will do, Python's too: it is written down.
    What is optional may be lacking.
    """
    python = env.spec["existing"]
    env.facts = probe(python)
    if not env.facts:
        raise EnvError(f"{python} does not run; correct the path of the existing Python")
    env.packages, env.version = installed(env.facts), env.facts["version"]
    steps = [step for step in env.steps if not step.get("optional")]
    needed = [*pins_of(steps), *(item["project"] for item in steps if "project" in item)]
    lacking = [name for name in needed if name not in env.packages]
    if lacking:
        raise EnvError(
            f"{python} lacks {', '.join(lacking)}; install them there, or leave the existing "
            "Python empty for an environment that setup makes"
        )
    prefix = env.facts["prefix"]
    linked = os.path.islink(env.path) and os.path.realpath(env.path) == os.path.realpath(prefix)
    faults = [] if linked else [f"{env.path} is not a link to {prefix}"]
    faults += drifted(env.lock, env.packages).values() if env.lock else []
    same = linked and env.lock == [header(env.version), *frozen(env.packages)]
    todo = [] if same else [{"what": "lock", "words": "write down what it holds"}]
    make = "" if linked else "link"
    return {**env.summary(), "faults": faults, "todo": todo, "make": make, "from": prefix}


def verify(spec: Spec) -> Spec:
    """Refuse an environment that is not what it should be."""
    answer = look(spec)
    faults = answer["faults"] or (["it has no lock"] if answer["todo"] else [])
    if faults:
        raise EnvError(f"{spec['path']}: {'; '.join(faults)}; run setup")
    return answer
