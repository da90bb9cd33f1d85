"""Whether setup put an image on this node, in which the role trainer runs nvidia-smi.

    python3 own_image.py SYSTEMS        prints the first record of one below that folder

Runs on the node by its own Python (3.8 or newer), standard library only. Exits 0, or 1 with one
sentence on stderr.
"""

from __future__ import annotations

import glob
import os
import sys


def main() -> int:
    """Run the command line; the exit code."""
    # <root>/systems/<system>/<pin>/image.json, as the role container_image writes it
    found = sorted(glob.glob(os.path.join(glob.escape(sys.argv[1]), "*", "*", "image.json")))
    if not found:
        print(
            "not run, for there is no image to run it in; name one in container_runtime_image, such"
            " as nvcr.io/nvidia/cuda:12.4.1-base-ubuntu22.04, or a pin set that is an image",
            file=sys.stderr,
        )
        return 1
    print(found[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
