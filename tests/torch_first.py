"""Import this before anything of Ansible's: its module_utils patch sys.intern, and torch's own
import, later in the same process, fails on the patch."""

from contextlib import suppress

with suppress(ImportError):
    import torch
    import torch._dynamo  # noqa: F401
