"""What is staged on a node: check it, and take it away.

    dataset.inspection:look       answer what is wrong with each dataset
    dataset.inspection:verify     refuse what is wrong
    dataset.inspection:remove     remove what setup staged; its spec: root, check (change nothing)

Their spec: root, datasets (name to entry of the catalogue).
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import sys
from typing import Any

from node import manifest_folders
from node.answer import ProgramError
from node.dataset import megatron_mmap
from node.removal import sized
from node.validated_text import InsidePath

# Every system finds the vocabulary and the tokens by the name that its document gives them.
VOCAB_NAMES = ("gpt2-vocab.json", "encoder.json")
MERGES_NAMES = ("gpt2-merges.txt", "vocab.bpe")
# For torchtitan, which tokenizes by itself: text by its name for it, the vocabulary (see
# tokenizer_form.py), and what ends a document.
JSON_LINES = "c4_test/data.json"
TOKENIZER, ENDS = "tokenizer.json", "tokenizer_config.json"
CURE = "run setup's data step again"


# What an entry of the catalogue asks for


def aliases(name: str, entry: dict[str, Any]) -> dict[str, str]:
    """Further names of files, and whose: one corpus in the naming of every system."""
    tokens = f"{name}_text_document"
    whose = {
        f"{prefix}{end}": f"{tokens}{end}"
        for prefix in (f"{name}_text_sentence", *entry.get("prefixes", []))
        for end in (".bin", ".idx")
    }
    whose.update(dict.fromkeys(VOCAB_NAMES, "vocab.json"))
    whose.update(dict.fromkeys(MERGES_NAMES, "merges.txt"))
    if has_text(entry) and "corpus" not in entry:
        whose[JSON_LINES] = entry["text"]
    return whose


def has_text(entry: dict[str, Any]) -> bool:
    """Whether its text, as JSON lines, goes to every node."""
    return "corpus" in entry or entry.get("text") in entry.get("keep", [])


def recipe(entry: dict[str, Any]) -> dict[str, Any]:
    """What a dataset of this entry must say of how it was made; addresses may change."""
    if "corpus" in entry:
        return dict(entry["corpus"])
    inputs = {
        source["file"]: source.get("sha256", "") or source.get("md5", "")
        for source in entry["inputs"]
    }
    steps = {key: entry[key] for key in ("tokens", "tokenise", "wiki", "program") if entry.get(key)}
    return {"inputs": inputs, **steps}


def faults(
    home: str, name: str, entry: dict[str, Any] | None, state: manifest_folders.State
) -> list[str]:
    """All that is wrong with a dataset; ``entry`` is None for one that somebody else made."""
    try:
        manifest = manifest_folders.manifest_of(home)
    except ProgramError as error:
        return [str(error)]
    faults_found = []
    if entry is not None:
        recorded = manifest.recipe or {}
        for key, expected in recipe(entry).items():
            if recorded.get(key) != expected:
                reason = f"with {key} {recorded.get(key)}, not {expected}"
                faults_found.append(
                    f"{os.path.join(home, manifest_folders.MANIFEST)} was made {reason}"
                )
        text = [JSON_LINES, TOKENIZER, ENDS] if has_text(entry) else []
        lacking = [
            file_name
            for file_name in (*aliases(name, entry), *text)
            if file_name not in manifest.sha256
        ]
        if lacking and not faults_found:
            faults_found.append(
                f"{os.path.join(home, manifest_folders.MANIFEST)} lists no {', '.join(lacking)}"
            )
    for file, expected_sum in manifest.sha256.items():
        path = os.path.join(home, file)
        if not os.path.isfile(path):
            faults_found.append(f"{path} does not exist")
            continue
        size = os.path.getsize(path)
        if size != manifest.bytes.get(file, size):
            faults_found.append(f"{path} has {size} bytes, not {manifest.bytes[file]}")
        elif state.sha256(path) != expected_sum:
            faults_found.append(
                f"{path} has sha256 {state.sha256(path)[:12]}, not {expected_sum[:12]}"
            )
    if not faults_found:
        try:
            megatron_mmap.check(os.path.join(home, manifest.prefix))
        except megatron_mmap.DatasetError as error:
            faults_found.append(str(error))
    return faults_found


def read(spec: dict[str, Any]) -> dict[str, Any]:
    """Each dataset's fault (empty for a whole one), identity, and bytes of a beginning.

    With them the node's Python.
    """
    root = spec["root"]
    state = manifest_folders.State(root)
    answers = {}
    for name, entry in spec["datasets"].items():
        home = os.path.join(root, name)
        wrong = faults(home, name, entry, state)
        begun = 0
        for folder, _, files in os.walk(os.path.join(root, ".work", name)):
            begun += sum(os.path.getsize(os.path.join(folder, file_name)) for file_name in files)
        identity = "" if wrong else state.sha256(os.path.join(home, manifest_folders.MANIFEST))
        answers[name] = {"fault": "; ".join(wrong), "identity": identity, "begun": begun}
    state.save()
    python = list(sys.version_info[:2])
    return {"python": python, "datasets": answers}


def look(spec: dict[str, Any]) -> dict[str, Any]:
    """Answer what `read` finds."""
    try:
        return read(spec)
    except (ProgramError, OSError) as error:
        raise ProgramError(f"dataset error: {error}") from None


def verify(spec: dict[str, Any]) -> dict[str, Any]:
    """Refuse what is wrong with any dataset, and answer what `read` finds all the same."""
    answer = look(spec)
    wrong = {
        name: dataset["fault"] for name, dataset in answer["datasets"].items() if dataset["fault"]
    }
    if wrong:
        cures = {name: "" if "setup" in fault else f"; {CURE}" for name, fault in wrong.items()}
        lines = [f"dataset {name}: {fault}{cures[name]}" for name, fault in wrong.items()]
        raise ProgramError("\n".join(lines), answer)
    return answer


# Removal


def remove(spec: dict[str, Any]) -> dict[str, Any]:
    """Take away what setup staged, alone among the programs that stage."""
    there = os.path.isdir(spec["root"])
    try:
        # a program that stages now keeps its lock: nothing is taken from under it
        with manifest_folders.locked(spec["root"]) if there else contextlib.nullcontext():
            return take_away(spec)
    except (ProgramError, OSError) as error:
        raise ProgramError(f"dataset error: {error}") from None


def take_away(spec: dict[str, Any]) -> dict[str, Any]:
    """Take away what setup staged; what it found, and datasets of others, stay."""
    root, check = spec["root"], spec["check"]
    if not os.path.isdir(root):
        return {"changed": False, "removed": [], "kept": [], "told": []}
    state = manifest_folders.State(root)
    ours = dict(state.content["staged"])
    for path in glob.glob(os.path.join(glob.escape(root), "*", manifest_folders.MANIFEST)):
        with contextlib.suppress(ProgramError):  # what does not fit, setup did not write
            manifest = manifest_folders.manifest_of(os.path.dirname(path))
            if manifest.recipe is not None:
                name = os.path.basename(os.path.dirname(path))
                ours.setdefault(name, list(manifest.sha256))
    tools = [folder for folder in (".tools", ".work") if os.path.isdir(os.path.join(root, folder))]
    going = [os.path.join(root, name) for name in [*sorted(ours), *tools]]
    lines = [sized(path) for path in going if os.path.isdir(path)]
    if not check:
        for name, files in ours.items():
            home = os.path.join(root, name)
            if os.path.isdir(home):
                manifest_file = InsidePath(manifest_folders.MANIFEST)
                manifest_folders.unlink(
                    home, {*files, *manifest_folders.index_maps(home), manifest_file}
                )
                if not os.listdir(home):
                    os.rmdir(home)
        for folder in tools:
            shutil.rmtree(os.path.join(root, folder))
        manifest_folders.unlink(root, {InsidePath(".state.json"), InsidePath(".lock")})
        if not os.listdir(root):
            os.rmdir(root)
    remaining = sorted(os.listdir(root)) if os.path.isdir(root) else []
    return {
        "changed": bool(ours or tools),
        "removed": sorted(ours),
        "kept": remaining,
        "told": lines,
    }
