"""Fixtures of the tests of what runs on nodes."""

from tests import torch_first  # noqa: F401 - before any test module brings Ansible
