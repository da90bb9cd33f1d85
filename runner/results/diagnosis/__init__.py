"""Why a run failed: the first cause, from all nodes' logs together, with its evidence.

A word such as `error` proves nothing: many logs print it and train on. Evidence is an uncaught
exception, a signal, or a launcher's, scheduler's or library's own line about the end, and it counts
only where no step and no success follow in that log. docs/parsers.md lists the statuses.
"""
