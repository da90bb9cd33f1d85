"""TrainBench: from bare nodes to a comparison table of distributed GPT training."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  # before any module that an older one cannot read
    sys.exit(
        "error: TrainBench needs Python 3.11 or newer, and this is "
        f"{sys.version_info[0]}.{sys.version_info[1]}; in the checkout, "
        "`make venv PYTHON=/path/to/python3` makes its environment from one"
    )

__version__ = "0.9.0"
