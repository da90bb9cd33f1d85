"""Megatron's dataset rules, from the one file that knows them (nodes run that same file)."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from runner.base.paths import PROJECT


def _load() -> ModuleType:
    path = PROJECT / "roles" / "dataset" / "files" / "megatron_mmap.py"
    spec = importlib.util.spec_from_file_location("megatron_mmap", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault("megatron_mmap", module)
    spec.loader.exec_module(module)
    return module


_module = _load()
DatasetError: type[Exception] = _module.DatasetError
check_split = _module.check_split
