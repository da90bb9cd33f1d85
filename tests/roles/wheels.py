"""Tiny wheels, written here, for tests of environments that the real pip and venv make."""

import base64
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path


def write(
    folder: Path, name: str, version: str, source: str = "", needs: Sequence[str] = ()
) -> Path:
    """A wheel with one module; `needs` are its requirements. Returns its file."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{name}/__init__.py": source or f"__version__ = {version!r}\n",
        f"{info}/METADATA": metadata + "".join(f"Requires-Dist: {need}\n" for need in needs),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {
        path: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        for path, text in files.items()
    }
    record = [f"{path},sha256={digests[path]},{len(files[path])}" for path in files]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,"]) + "\n"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in files.items():
            archive.writestr(zipfile.ZipInfo(member), text)  # no time: the same bytes each time
    return path


def download(folder: Path, *pins: str) -> None:
    """Real wheels of the package index."""
    words = ["-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), *pins]
    subprocess.run([sys.executable, *words], check=True)
