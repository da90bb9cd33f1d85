"""``versions | cuda_by_apt`` and ``cuda_by_runfile``: what node_state is to make of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

DOWNLOADS = "/var/lib/trainbench"


def nvcc(version: str) -> dict[str, Any]:
    """How a toolkit shows that it is there, and of which version: by its own compiler."""
    return {
        "what": f"nvcc of CUDA {version}",
        "argv": [f"/usr/local/cuda-{version}/bin/nvcc", "--version"],
        "expect": f"release {re.escape(version)},",
    }


def by_apt(versions: Iterable[str]) -> list[dict[str, Any]]:
    """An nvcc that is gone though its package is there comes back with the package."""
    again = ["apt-get", "install", "--yes", "--reinstall", "--allow-change-held-packages"]
    return [
        {**nvcc(version), "make": [*again, f"cuda-nvcc-{version.replace('.', '-')}"]}
        for version in versions
    ]


def by_runfile(
    versions: Iterable[str], runfiles: Mapping[str, Mapping[str, str]], urls: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The toolkit alone, in its own folder: no driver, and nothing outside that points to it."""
    options = ["--silent", "--override", "--toolkit", "--no-man-page", "--no-opengl-libs"]
    toolkits = []
    for version in versions:
        home, file = f"/usr/local/cuda-{version}", f"{DOWNLOADS}/cuda-{version}.run"
        entry = f"/etc/ld.so.conf.d/cuda-{version.replace('.', '-')}.conf"
        toolkits.append(
            {
                **nvcc(version),
                "download": {
                    "url": urls[version],
                    "sha256": runfiles[version]["sha256"],
                    "path": file,
                },
                "make": ["sh", file, *options, f"--installpath={home}"],
                "leftovers": ["/usr/local/cuda", entry],
                "settle": ["ldconfig"],
                "paths": [home],
            }
        )
    return toolkits


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., list[dict[str, Any]]]]:
        """Filter names and their functions."""
        return {"cuda_by_apt": by_apt, "cuda_by_runfile": by_runfile}
