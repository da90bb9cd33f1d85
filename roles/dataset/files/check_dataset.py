"""Check a staged dataset: every file that dataset.json lists by sha256, and the index's layout.

    python3 check_dataset.py FOLDER [RECIPE]

RECIPE is JSON: what dataset.json must say of how it was made. Prints {file name: sha256} and exits
0, or says on stderr what is wrong and exits 1. Standard library only, Python 3.8 or newer: it runs
with whatever Python the node has.
"""

import hashlib
import json
import os
import sys

import megatron_mmap


def sha256(path: str) -> str:
    """The file's SHA-256, read in blocks of 1 MiB."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while True:
            block = stream.read(1 << 20)
            if not block:
                return digest.hexdigest()
            digest.update(block)


def check(folder: str, recipe: "dict[str, int]") -> "dict[str, str]":
    """File name to sha256 of a whole dataset. Raises DatasetError with one sentence."""
    manifest_path = os.path.join(folder, "dataset.json")
    try:
        with open(manifest_path, encoding="utf-8") as stream:
            manifest = json.load(stream)
    except FileNotFoundError:
        raise megatron_mmap.DatasetError(f"{manifest_path} does not exist") from None
    except ValueError as error:
        raise megatron_mmap.DatasetError(f"{manifest_path} is not JSON: {error}") from None
    for key, asked in recipe.items():
        made = manifest.get("recipe", {}).get(key)
        if made != asked:
            raise megatron_mmap.DatasetError(
                f"{manifest_path} was made with {key} {made}, not {asked}"
            )
    for name, wanted in manifest["sha256"].items():
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            raise megatron_mmap.DatasetError(f"{path} does not exist")
        found = sha256(path)
        if found != wanted:
            raise megatron_mmap.DatasetError(f"{path} has sha256 {found[:12]}, not {wanted[:12]}")
    megatron_mmap.check(os.path.join(folder, manifest["prefix"]))
    return dict(manifest["sha256"])


def main() -> int:
    """Run the command line; the exit code."""
    if len(sys.argv) not in (2, 3):
        print("usage: check_dataset.py FOLDER [RECIPE]", file=sys.stderr)
        return 2
    try:
        recipe = json.loads(sys.argv[2]) if len(sys.argv) == 3 else {}
        print(json.dumps(check(sys.argv[1], recipe)))
    except (megatron_mmap.DatasetError, OSError, KeyError) as error:
        cure = "" if "setup" in str(error) else "; run setup's data step again"
        print(f"dataset error: {error}{cure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
