"""The roles' plugins, by themselves: no node, no play."""

from tests import torch_first  # noqa: F401 - before any test module brings Ansible
