"""Readers of trainer logs, one module for each log family (families/). Pure: blocks in, steps out.

    blocks ─ placed_lines ▶ ReadLog.feed ▶ Kind.feed ▶ LoggedStep ▶ Measurement

A parser finds its marker in whole blocks before it looks at a line, so that a prefix (`host: `,
`[default7]:`), colours and other writers' output change nothing. What is not on the line is
missing, never zero. docs/parsers.md has the families and what each field means.
"""
