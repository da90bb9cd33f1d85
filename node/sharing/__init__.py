"""Files from the nodes that have them to those that do not: a shelf, a server, and who fetches.

A file is known by its SHA-256 and nothing else, on the wire too. It is checked when it is whole,
and a part is kept (``<root>/.work/share/<sha256>.part``): the next run goes on from there. A
holder ends when all that lack something said they are done, or were not heard for LOST_S; a node
that lacks something ends when it has it, or nobody gave it a byte for LOST_S. So nothing is left
running when the control node, or a part of the cluster, is gone.
"""

from node.manifest_folders import MOST_MANIFEST

CHUNK = MOST_MANIFEST  # bytes that are asked for at once: a manifest is one chunk
LOST_S = 30.0
TIMES = 3  # that one may fetch all of what it lacks: once, again where it came damaged, once more
SEND_S = 20.0  # for one read or write on a connection that stands
PAUSE_S = 0.1
