"""roles/verify's action plugin: a failed task's own words. The rest of it runs in tests/roles."""

import re
from typing import Any

import pytest
import yaml

from roles.verify.action_plugins.survey import message
from runner.base.paths import PROJECT
from runner.systems.common.registry import system_names


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"msg": "package git: not installed"}, "package git: not installed"),
        ({"msg": "non-zero return code", "stderr": "a\nb\n", "stdout": "c"}, "a\nb"),
        ({"msg": "non-zero return code", "stderr": "", "stdout": "c"}, "c"),
        ({"msg": "", "rc": 1}, "it failed, and said nothing"),
        (
            {
                "msg": "One or more items failed",
                "results": [
                    {"failed": False, "msg": "fine"},
                    {"failed": True, "msg": "non-zero return code", "stderr": "first"},
                    {"failed": True, "msg": "second"},
                ],
            },
            "first\nsecond",
        ),
        ({"msg": "secret", "_ansible_no_log": True}, "it failed, and its output is not shown"),
        ("odd", "odd"),
    ],
)
def test_a_failed_tasks_own_words(result: Any, words: str) -> None:
    assert message(result).startswith(words)


def test_every_role_that_may_apply_is_imported() -> None:
    verify = PROJECT / "roles" / "verify"
    applies = yaml.safe_load((verify / "vars/main.yml").read_text())["__verify_applies"]
    imports = yaml.safe_load((verify / "tasks/roles.yml").read_text())
    assert [each["vars"]["verify_asked"] for each in imports] == list(applies)


def test_teardown_removes_every_role_that_can_be_removed() -> None:
    removals = {path.parts[-3]: path for path in PROJECT.glob("roles/*/tasks/remove.yml")}
    playbook = PROJECT / "playbooks" / "teardown.yml"
    texts = (path.read_text() for path in (playbook, *removals.values()))
    named = {word for text in texts for word in re.findall(r"\w+", text)}
    assert removals.keys() <= named | {*system_names()}
