"""A container image without a registry or an engine: this machine's Python, and what it needs."""

import hashlib
import io
import json
import re
import subprocess
import tarfile
from pathlib import Path

PYTHON = Path("/usr/bin/python3").resolve()
LIBRARIES = Path("/usr/lib") / PYTHON.name
LINKS = ("bin", "lib", "lib64")  # into /usr
LEFT_OUT = re.compile("dist-packages|__pycache__|/test|/idlelib|/config-")


def write_image(path: Path, name: str, variables: dict[str, str]) -> None:
    """Write it as `docker save` does, with variables of its own."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for each in LINKS:
            tar.add(f"/{each}", each)
        for file in (Path("/usr/bin/python3"), PYTHON, *_linked(), LIBRARIES):
            tar.add(file, str(file)[1:], filter=_kept)
    text = layer.getvalue()
    env = [f"{key}={value}" for key, value in {"PATH": "/usr/bin:/bin", **variables}.items()]
    config = {
        **{"architecture": "amd64", "os": "linux", "config": {"Env": env}},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(text).hexdigest()}"]},
    }
    described = json.dumps(config).encode()
    id = hashlib.sha256(described).hexdigest()
    manifest = [{"Config": f"{id}.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {"layer.tar": text, f"{id}.json": described}
    files["manifest.json"] = json.dumps(manifest).encode()
    with tarfile.open(path, "w") as tar:
        for each, data in files.items():
            entry = tarfile.TarInfo(each)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if LEFT_OUT.search(entry.name) else entry


def _linked() -> list[Path]:
    """What the program and its modules are linked with, where the loader looks for it."""
    modules = (LIBRARIES / "lib-dynload").glob("*.so")
    said = subprocess.run(["ldd", PYTHON, *modules], capture_output=True, text=True).stdout
    found = {Path(place) for place in re.findall(r"(/lib\S+) \(0x", said)}
    real = {place.resolve() for place in found}
    return sorted({Path("/usr") / str(place)[1:] for place in found} | real)
