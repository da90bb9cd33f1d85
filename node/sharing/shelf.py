"""The files that a node can give on."""

from __future__ import annotations

import os

from node import manifest_folders
from node.validated_text import Sha256


class Shelf:
    """The files that this node can give, whole or as far as they came, by SHA-256."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.complete: dict[Sha256, str] = {}
        self.size = 0  # bytes of the datasets that are given

    def partial_path(self, digest: Sha256) -> str:
        """Where a file is while it comes."""
        return os.path.join(self.folder, digest + ".part")

    def path(self, digest: Sha256) -> str:
        """Where it is when it is whole."""
        return os.path.join(self.folder, digest)

    def add_dataset(self, home: str, identity: Sha256) -> None:
        """All files of a dataset that was checked."""
        self.complete[identity] = os.path.join(home, manifest_folders.MANIFEST)
        for file, digest in manifest_folders.manifest_of(home).sha256.items():
            self.complete[digest] = os.path.join(home, file)
        self.size = sum(os.path.getsize(path) for path in {*self.complete.values()})

    def find(self, digest: Sha256) -> str | None:
        """What of the file can be read now."""
        paths = (self.complete.get(digest), self.path(digest), self.partial_path(digest))
        return next((path for path in paths if path and os.path.exists(path)), None)
