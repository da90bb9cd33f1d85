"""The oldest Python of a node: what Ansible's modules and our programs for nodes need there."""

OLDEST_PYTHON = (3, 8)  # ansible-core 2.18 and 2.19 (module_utils/basic.py)
OLDEST_NAME = "%d.%d" % OLDEST_PYTHON
