"""Readers of trainer logs, one module a log family (families/). Pure: byte blocks in, steps out.

    blocks ──text.whole_lines──▶ Kind.feed ──▶ Batch (columns of steps) ──▶ measure / summary

A parser finds its marker in whole blocks before it looks at a line, so that a prefix (`host: `,
`[default7]:`), colours and other writers' output cost nothing and change nothing. What is not on
the line is missing, never zero. Memory does not grow with the log. docs/parsers.md has the
families and what each field means.
"""
