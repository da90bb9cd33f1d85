"""What Ansible's processes for a task and a node inherit, instead of loading it each."""

import subprocess
import sys

from tests.conftest import ROOT

# In a Python of its own: in this one an earlier test may have loaded filters.
TASK = """\
import gc, sys
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar, trust_as_template
from playbooks.callback_plugins.before_forks import CallbackModule

init_plugin_loader()
templar = Templar(DataLoader(), {"one": 1})
templar.template(trust_as_template("{{ one }}"))  # what templates load themselves
if sys.argv[1] == "prepared":
    CallbackModule().v2_playbook_on_task_start(None, False)
known = set(sys.modules)
assert templar.template(trust_as_template("{{ [1, 2] | default([]) | length }}")) == 2
assert templar.template(trust_as_template("{{ one is defined }}"))
assert templar.template(trust_as_template("{{ lookup('ansible.builtin.env', 'HOME') }}"))
new = [name for name in set(sys.modules) - known if ".plugins." in name]
print(gc.get_freeze_count() > 0, len(new), *new)
"""


def test_a_task_loads_no_plugin_again_that_templates_need() -> None:
    said = {}
    for how in ("prepared", "bare"):
        argv = [sys.executable, "-c", TASK, how]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
        said[how] = done.stdout.split()
    assert said["prepared"] == ["True", "0"]
    assert said["bare"][0] == "False"
    assert int(said["bare"][1]) > 5
