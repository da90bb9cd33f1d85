"""The command lines of README, tutorial and how-tos, as they stand there."""

import re

from tests.conftest import ROOT

PAGES = ("README.md", "docs/tutorial.md", "docs/report.md", *sorted(
    path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "how-to").glob("*.md")
))  # fmt: skip
PROGRAMS = (
    "trainbench|make|cp|source|ssh-copy-id|pipx?|ansible-playbook|python|systemd-run|journalctl"
    "|runuser|tar"
)
_LINE = re.compile(rf"(?:{PROGRAMS}) .*")
_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[str]:
    """Return a page's commands in order: lines of blocks, indented or fenced without a language,
    that begin with a program; without their comments.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    text = _FENCE.sub(lambda found: "" if found[1] else re.sub("(?m)^", "    ", found[2]), text)
    lines = re.findall(r"(?m)^ {4,}(\S.*)$", text)
    return [re.sub(r"\s+# .*", "", line) for line in lines if _LINE.fullmatch(line)]


CLUSTER, README, ACCEPT = "docs/how-to/cluster.md", "README.md", "docs/how-to/accept.md"
_SLURM_LINES = (
    "cp -r inventory/slurm inventory/mine",
    "trainbench bench matrix.yaml -i inventory/mine --dry-run",
    "trainbench bench matrix.yaml -i inventory/mine",
    "trainbench status --watch",
)
# By page and line: what tests/on_slurm and tests/on_nodes run.
ON_SLURM = {(README, line) for line in commands(README) if line in _SLURM_LINES}
ON_NODES = {
    *((CLUSTER, line) for line in commands(CLUSTER)[:8]),
    *((README, line) for line in commands(README) if line.startswith("trainbench ")),
    *((ACCEPT, line) for line in commands(ACCEPT)[:2]),
} - {(README, line) for line in (_SLURM_LINES[1], _SLURM_LINES[3])}
EXAMPLES = "tests/test_examples.py::test_the_libraries_have_the_runs"
# What no test types as it stands: who runs the same, or why nobody does.
ELSEWHERE = {
    "make demo": "tests/tools/test_demo.py::test_a_fresh_clone_shows_the_table",
    "make test": "runs this test",
    "ansible-playbook playbooks/setup.yml -i inventory/vs": "needs two hosts of these names:"
    " tests/roles/test_whole_setup.py runs the playbook",
    **dict.fromkeys(
        ("python -m runner bench --matrix matrix.yaml", "python -m runner collect"),
        "tests/tools/test_demo.py::test_a_fresh_clone_shows_the_table",
    ),
    "ssh-copy-id train@10.0.0.11": "asks for a password: OpenSSH's own program",
    "trainbench accept -i inventory/mine --soak 24h": "takes a day",
    "runuser -u trainbench -- /opt/trainbench/bin/trainbench accept --quick --node localhost"
    " >/var/log/accept.log 2>&1": "a site's own script, of a user that it has",
    'systemd-run --user --unit=bench --working-directory="$PWD"'
    " trainbench bench matrix.yaml -i inventory/mine": "needs a systemd, which test machines lack",
    "journalctl --user -u bench -f": "needs a systemd, which test machines lack",
    "pip install 'trainbench-cluster[examples]'": "needs a release on the index",
    "python examples/mlflow_import.py campaign.json": EXAMPLES,
    "python examples/wandb_import.py campaign.json": EXAMPLES,
    **dict.fromkeys(
        commands("docs/how-to/experts-and-long-context.md"),
        "needs GPUs, or trains for a minute: golden/test_documented.py has the long cells,"
        " runner/systems/test_experts.py plans the experts', torch_gpt/test_experts.py trains them",
    ),
    **dict.fromkeys(
        commands("docs/how-to/ci.md"), "builds versions: tests/on_nodes/test_versions.py"
    ),
    "trainbench bench --matrix matrices/start/goodput.yaml -i inventory/local": "tests/on_nodes/"
    "test_goodput.py::test_faults_cost_time_and_nothing_else",
    "trainbench bench --matrix matrices/gpu/goodput.yaml -i inventory/mine --dry-run": "needs an"
    " inventory of nodes with GPUs",
    "trainbench tune mine.yaml -i inventory/mine --budget 12": "tests/runner/tune/"
    "test_search_on_nodes.py::test_the_fastest_wins_by_its_long_runs",
}
