"""One image that a pin set is: whether it is there and what is in it, building, giving it on.

    image:look      say what is there and what differs, and change nothing
    image:build     build it from its base
    image:save      write it to a file that node/share.py can give
    image:load      take it from that file
    image:verify    ask the engine and the image itself; refuse what differs
    image:remove    remove the images of the pin sets in `folders`

Their spec: engine (path of what builds), build (what it is told besides), image (its local name),
base (the public name), requirements (lists of exact pins, one call of pip each), files (name to
text: of the build), home (of the pin set), archive (folder for save and load), mirrors (kind to
beginning to its replacement), index, extra_index, find_links (of pip); file (what training
runs it from; empty for the engine's own storage), made (what makes that of it, argv by argv, as
`file`.new), supervised (the run's supervisor runs in it).

Beside the sources lies image.json, which says which image it is, made by which recipe, and all that
pip has in it. A base is named by a tag, which moves: what the tag was when the image was first
built (`base_digest`) is what a later build takes.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import re
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from node import manifest_folders, parsing
from node.answer import ProgramError
from node.canonical import canonical
from node.checksum import sha256
from node.env.indexes import INDEX
from node.files import read_text, write_text
from node.image_engine import ImageError, ask, identity, logged
from node.mirrors import mirrored
from node.oldest_python import OLDEST_NAME, OLDEST_PYTHON
from node.schema import Fields, List, Text, Whole

if TYPE_CHECKING:  # Python 3.8 cannot say this when it runs
    Spec = dict[str, Any]

_TEXT = Text()
_DIGEST = Text(r"(sha256:[0-9a-f]{64})?")
_OF_BASE = re.compile(r"@(sha256:[0-9a-f]{64})$")  # ends a name that no tag moves
_NAMES = List(_TEXT)
RECORD = Fields(
    {},
    {
        **dict.fromkeys(("image", "name", "recipe", "python", "sha256"), (_TEXT, "")),
        "base": (_TEXT, ""),
        "base_digest": (_DIGEST, ""),
        "bytes": (Whole(0), 0),
        "lines": (List(_TEXT), []),
    },
)
LOCK = "/etc/trainbench/lock.txt"
FREEZE = ["python3", "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"]


def recipe(spec: Spec) -> str:
    """A checksum of all that the image is made of."""
    ingredients = [spec["base"], spec["requirements"], sorted(spec["files"].items())]
    return hashlib.sha256(json.dumps(ingredients).encode()).hexdigest()


def record_file(spec: Spec) -> str:
    """Where it is written down which image it is."""
    return os.path.join(spec["home"], "image.json")


def recorded(path: str) -> Spec:
    """What the record says; empty without one."""
    record: Spec = parsing.recall(path, RECORD)
    return record


def present(spec: Spec, record: Spec) -> str:
    """The id of what training would run; empty where there is nothing.

    The engine that built it need not have it any more: its storage may be another login node's.
    """
    if not spec["file"]:
        return identity(spec)
    try:
        size = os.path.getsize(spec["file"])
    except OSError:
        return ""
    recorded_id: str = record.get("image", "")
    return recorded_id if size == record.get("bytes") else "another"


def starts_here(spec: Spec) -> bool:
    """Whether the engine that built it can start it here; what runs a file alone is Slurm's."""
    return not spec["file"] or (os.path.exists(spec["engine"]) and bool(identity(spec)))


def look(spec: Spec) -> Spec:
    """What is there, in the form that the program env of python_env says it."""
    record = recorded(record_file(spec))
    image_id = present(spec, record)
    faults = []
    if not image_id:
        faults.append(f"the image {spec['image']} is not there")
    elif record.get("image") != image_id:
        faults.append(f"the image {spec['image']} is not the one that setup put here")
    elif record.get("recipe") != recipe(spec):
        faults.append(f"the image {spec['image']} is of another base, pin or build file")
    lines = record.get("lines", [])
    digest = record.get("base_digest", "")
    base = {"base": f"{untagged(record['base'])}@{digest}"} if digest else {}
    have = {canonical(line.partition("==")[0]): line.partition("==")[2] for line in lines}
    packages = [
        canonical(re.split(r"==|\[", pin)[0]) for pins in spec["requirements"] for pin in pins
    ]
    return {
        "image": image_id if not faults else "",
        **base,
        "python": record.get("python", ""),
        "versions": {name: have.get(name, "") for name in sorted(set(packages))},
        "lock": hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest(),
        "lines": lines,
        "faults": faults,
        "todo": [],
        "make": "image" if faults else "",
    }


def verify(spec: Spec) -> Spec:
    """Refuse an image that is not what it should be, or does not hold what its lock says."""
    answer = look(spec)
    if spec["file"] and not answer["faults"]:
        if sha256(spec["file"]) != recorded(record_file(spec)).get("sha256"):
            answer["faults"] = [f"{spec['file']} is not as setup made it"]
    elif not answer["faults"]:
        now = ask(spec, "run", "--rm", "--pull=never", "--network=none", spec["image"], *FREEZE)
        if sorted(now.split()) != sorted(answer["lines"]):
            answer["faults"] = [f"the image {spec['image']} does not hold what its lock says"]
    if answer["faults"]:
        raise ImageError(f"{'; '.join(answer['faults'])}; run setup")
    return answer


def pip_conf(spec: Spec) -> str:
    """Where pip looks while the image is built: as the site says, else as the node's own does."""
    index = spec["index"] or mirrored(INDEX, spec["mirrors"].get("pip"))
    more = {"extra-index-url": spec["extra_index"], "find-links": spec["find_links"]}
    if index == INDEX and not any(more.values()):
        return read_text("/etc/pip.conf")
    for address in (index, *more.values()):
        if address.startswith(("/", "file:")):
            raise ImageError(
                f"{address} is a folder, which is not seen while an image is built; name an index"
                " by http in python_env_index_url"
            )
    lines = ["[global]", f"index-url = {index}"]
    return "\n".join([*lines, *(f"{key} = {text}" for key, text in more.items() if text), ""])


def build(spec: Spec) -> Spec:
    """Build the image; the whole output is in logs/image.log of the pin set."""
    base = mirrored(spec["base"], spec["mirrors"].get("images"))
    why = f"cannot be built from {base}"
    record = recorded(record_file(spec))
    digest = record["base_digest"] if record and record["base"] == spec["base"] else ""
    if digest and not _OF_BASE.search(base):
        base = f"{untagged(base)}@{digest}"
        why = (
            f"cannot be built from {base}, which {spec['base']} was when it was first built here;"
            f" remove {record_file(spec)} to take what that is today"
        )
    os.makedirs(spec["home"], exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="trainbench-image-", dir=spec["home"]) as scratch:
        context = os.path.join(scratch, "context")
        os.mkdir(context)
        texts = {
            f"requirements-{number:02}.txt": "".join(f"{pin}\n" for pin in pins)
            for number, pins in enumerate(spec["requirements"], 1)
        }
        for name, text in {**spec["files"], **texts}.items():
            with open(os.path.join(context, name), "w", encoding="utf-8") as file:
                file.write(text)
                # the umask of whoever runs this must not decide what is in an image
                os.fchmod(file.fileno(), 0o755 if text.startswith("#!") else 0o644)
        secret = os.path.join(scratch, "pip.conf")
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(pip_conf(spec))
        argv = [spec["engine"], "build", "--tag", spec["image"], "--network=host"]
        argv += ["--build-arg", f"BASE={base}", "--secret", f"id=pip,src={secret}"]
        argv += [*spec["build"], "--file", os.path.join(context, "Containerfile"), context]
        logged(spec, argv, "image", why)
    return write_down(spec, digest or digest_of(spec, base))


def untagged(base: str) -> str:
    """An image's name without its tag or digest."""
    folder, slash, name = base.partition("@")[0].rpartition("/")
    return f"{folder}{slash}{name.partition(':')[0]}"


def digest_of(spec: Spec, base: str) -> str:
    """The digest of a base, as its registry has it; empty where the engine cannot say it."""
    if match := _OF_BASE.search(base):
        return match[1]
    try:
        text = ask(spec, "image", "inspect", "--format", "{{json .RepoDigests}}", base)
        names = parsing.parse(text.encode(), _NAMES, "the engine's answer")
    except ProgramError:
        return ""
    return next((match[1] for name in names if (match := _OF_BASE.search(name))), "")


def write_down(spec: Spec, digest: str = "") -> Spec:
    """Ask the image what it holds, and write it beside the sources; `digest` is its base's."""
    options = ["run", "--rm", "--pull=never", "--network=none", spec["image"]]
    version = ask(spec, *options, "python3", "--version").split()[-1]
    if spec["supervised"] and tuple(map(int, version.split(".")[:2])) < OLDEST_PYTHON:
        raise ImageError(
            f"the image {spec['image']} has Python {version}, and the supervisor, which runs in it"
            f" with this engine, needs {OLDEST_NAME}; take another pin set or"
            " cluster_container_engine"
        )
    record = {
        "schema": 1,
        "image": identity(spec),
        "name": spec["image"],
        "base": spec["base"],
        "base_digest": digest,
        "recipe": recipe(spec),
        "python": version,
        "lines": ask(spec, *options, "cat", LOCK).split(),
        **(make_file(spec) if spec["file"] else {}),
    }
    os.makedirs(spec["home"], exist_ok=True)
    write_text(record_file(spec), json.dumps(record, indent=2) + "\n")
    return look(spec)


def make_file(spec: Spec) -> Spec:
    """Make the file that training runs it from; what is then known of it."""
    fresh, archive = f"{spec['file']}.new", f"{spec['archive']}.tar"
    os.makedirs(os.path.dirname(archive), exist_ok=True)
    try:
        for path in (archive, fresh):  # no program here writes over what is there
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
        for number, argv in enumerate(spec["made"], 1):
            logged(spec, argv, f"image-file-{number}", f"cannot become {spec['file']}")
        os.replace(fresh, spec["file"])
    finally:
        for path in (archive, fresh):
            with contextlib.suppress(OSError):
                os.remove(path)
    return {"bytes": os.path.getsize(spec["file"]), "sha256": sha256(spec["file"])}


def save(spec: Spec) -> Spec:
    """The image as a file, described as a dataset is; the identity is the description's SHA-256."""
    folder = spec["archive"]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, mode=0o700)
    path = os.path.join(folder, "image.bin")
    argv = [spec["engine"], "save", "--output", path, spec["image"]]
    logged(spec, argv, "image-save", f"cannot be written to {path}")
    manifest = {
        "recipe": {
            "image": identity(spec),
            "base_digest": recorded(record_file(spec)).get("base_digest", ""),
        },
        "prefix": "image",  # the .bin of a dataset
        "bytes": {"image.bin": os.path.getsize(path)},
        "sha256": {"image.bin": sha256(path)},
    }
    text = json.dumps(manifest)
    with open(os.path.join(folder, "dataset.json"), "w", encoding="utf-8") as file:
        file.write(text)
    return {"identity": hashlib.sha256(text.encode()).hexdigest()}


def load(spec: Spec) -> Spec:
    """Take the image from the file."""
    path = os.path.join(spec["archive"], "image.bin")
    argv = [spec["engine"], "load", "--input", path]
    logged(spec, argv, "image-load", f"cannot be taken from {path}")
    recipe_of_archive = manifest_folders.manifest_of(spec["archive"]).recipe or {}
    if identity(spec) != recipe_of_archive.get("image"):
        raise ImageError(
            f"{spec['image']} became another image on the way; the nodes need one engine of one"
            " version"
        )
    digest = recipe_of_archive.get("base_digest") or ""  # by the node that gives it
    return write_down(spec, _DIGEST.check(digest, "the digest of its base"))


def remove(spec: Spec) -> Spec:
    """Remove the images that the records of the folders name; an engine that is gone has none."""
    removed = []
    for folder in spec["folders"]:
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*", "image.json"))):
            record = {"engine": spec["engine"], "image": recorded(path).get("name", "")}
            if record["image"] and os.path.exists(spec["engine"]) and identity(record):
                removed.append(record["image"])
                if not spec["check"]:
                    ask(record, "rmi", "--force", record["image"])
    return {"removed": removed}


def recorded_here(spec: Spec) -> Spec:
    """Answer where the first record of an image lies below the folder `systems`."""
    pattern = os.path.join(glob.escape(spec["systems"]), "*", "*", "image.json")
    records = sorted(glob.glob(pattern))
    if not records:
        raise ImageError(
            "not run, for there is no image to run it in; name one in container_runtime_image, such"
            " as nvcr.io/nvidia/cuda:12.4.1-base-ubuntu22.04, or a pin set that is an image"
        )
    return {"record": records[0]}
