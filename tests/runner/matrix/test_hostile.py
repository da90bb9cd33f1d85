"""Matrices made to harm: one sentence, soon, and in little memory."""

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runner.__main__ import main
from runner.base.errors import MOST_FAULTS

SYSTEM = "defaults: {system: torch_gpt}\n"
SOON_S = 5.0  # what takes half a second on an idle machine
MEMORY = 2 << 30  # bytes, with room for Python and what it imports

MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n + 1}: &a{n + 1} {{<<: [*a{n}, *a{n}]}}\n" for n in range(34)
)
ALIASES = "a0: &a0 [1]\n" + "".join(
    f"a{n + 1}: &a{n + 1} [{','.join([f'*a{n}'] * 9)}]\n" for n in range(18)
)
SEEDS = f"axes: {{seed: [{','.join(map(str, range(10_000)))}]}}"
ROWS = "published: [{source: x, rows: [{samples_per_s: %s}]}]"
LONG = "9" * 4_000

HOSTILE = {
    "merge bomb": (MERGES, "nests too deeply, or holds too much"),
    "alias bomb": (ALIASES, "nests too deeply, or holds too much"),
    "alias in itself": ("a: &a {<<: *a}", "'a' is in itself"),
    "depth": ("a: " + "[" * 100_000, "nests too deeply, or holds too much"),
    "a shape that is a mapping": (f"{SYSTEM}table: {{shape: {{a: 1}}}}", "shapes are flat"),
    "a system that is none": ("defaults: {system: null}\n", "system"),
    "depth of keys": ("? " * 100_000, "nests too deeply, or holds too much"),
    "30,000 keys": ("".join(f"key{n}: {n}\n" for n in range(30_000)), "unknown key 'key0'"),
    "keys of one hash": (
        "".join(f"{n * (2**61 - 1)}: 1\n" for n in range(1, 9_000)),
        "is too large for a number",
    ),
    "too many values": ("a: [" + "1," * 300_000 + "]", "holds too much"),
    "too many bytes": (f"{SYSTEM}# {'x' * 2_000_000}", "has more than 1048576 bytes"),
    "digits": (f"{SYSTEM}repeats: {LONG}", "is too large for a number"),
    "digits of a published figure": (SYSTEM + ROWS % LONG, "is too large for a number"),
    "base 60": (f"{SYSTEM}repeats: !!int '1{':1' * 100_000}'", "is too large for a number"),
    "base 60 with a dot": (f"{SYSTEM}repeats: !!float '1{':1' * 300}'", "too large to convert"),
    "infinite": (f"{SYSTEM}time_limit_s: 1e999", "is too large for a number"),
    "repeats": (f"{SYSTEM}repeats: 1000000000000", "a whole number of 1 to 1000"),
    "runs": (f"{SYSTEM}repeats: 1000\n{SEEDS}", "are more than 100000 runs"),
    "axes of many values": (
        f"{SYSTEM}axes: {{{','.join(f'a{n}: [1, 2]' for n in range(1000))}}}",
        "at most 10000 can run",
    ),
    "includes": (f"{SYSTEM}include: [{'{seed: 1},' * 20_000}]", "include has 20000 entries"),
    "long text in each cell": (
        f"defaults: {{system: torch_gpt, env: {{A: {'x' * 500_000}}}}}\n{SEEDS}",
        "make several matrices",
    ),
    "many variables in each cell": (
        f"defaults: {{system: torch_gpt, env: {{{','.join(f'A{n}: x' for n in range(900))}}}}}\n"
        f"{SEEDS}",
        "make several matrices",
    ),
    "a published figure each cell": (
        f"{SYSTEM}{SEEDS}\npublished: [{{source: x, rows: ["
        + ",".join(f"{{cell: {{seed: {n}}}, samples_per_s: 1}}" for n in range(2_000))
        + "]}]",
        "published has more than 1000 rows",
    ),
    "a device as published": (f"{SYSTEM}published: /dev/zero", "/dev/zero is not a plain file"),
    "no path as published": (f'{SYSTEM}published: "a\\0b"', "cannot be read"),
    "a long path as published": (f"{SYSTEM}published: {'x' * 5_000}", "File name too long"),
    "an escape sequence as a key": ('"\\e]0;owned\\a": 1', "unknown key '\\x1b]0;owned\\x07'"),
}


def bounded_command(line: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the real command with little memory; Python's own start is about a tenth of it."""
    return subprocess.run(
        [sys.executable, "-m", "runner", *line],
        capture_output=True,
        text=True,
        timeout=240,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_matrix_is_one_sentence_soon(name: str, tmp_path: Path) -> None:
    """Bombs of 1 kB hung, 30,000 keys took 15 s; digits and devices ended in tracebacks."""
    text, words = HOSTILE[name]
    matrix = tmp_path / "m.yaml"
    matrix.write_text(text)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = bounded_command(["bench", "--matrix", str(matrix), "--dry-run"])
    assert (done.returncode, done.stdout) == (2, ""), done.stderr[-2000:]
    lines = done.stderr.splitlines()
    assert len(lines) <= MOST_FAULTS + 1
    assert all(line.startswith("error: ") and line.isprintable() for line in lines)
    assert len(done.stderr) < 5_000
    assert words in done.stderr
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 4 * SOON_S


def test_published_figures_on_the_command_line_are_a_file_with_an_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    began = time.process_time()
    assert main(["collect", "--published", "/dev/zero", "--shape", "osdi"]) == 2
    assert "/dev/zero is not a plain file" in capsys.readouterr().err
    assert time.process_time() - began < SOON_S
