"""Reports in a real browser, Debian's Chromium: `make nightly SUITE=pages`.

TRAINBENCH_PAGES names a folder for pictures and PDFs, for a person to look at.
"""
