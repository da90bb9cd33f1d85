"""TrainBench: from bare nodes to a comparison table of distributed GPT training."""

__version__ = "0.1.0"
