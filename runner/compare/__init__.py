"""Two campaigns to verdicts, and cells over many campaigns: what got slower, broke, vanished.

verdicts        two sides, cell by cell; quantity: one figure; side: a campaign or a saved table
rendering       their comparison as text
reading         many campaigns; identity: which of their cells are the same one
regressions     what got worse over them, as text and as a page
"""
