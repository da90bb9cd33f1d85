"""Fixtures of the fuzzer's own tests."""

from tests import torch_first  # noqa: F401 - before any test module brings Ansible
