"""The report: one self-contained HTML file. Pure: rows in, text out.

page: to_html, over templates/report.html.j2
  sections      tables: results, baseline, scaling, problems
  environment   what the runs ran on: what all share, what differs
  plots         throughput, scaling and curves, drawn by `svg`
"""

from runner.report.page import to_html

__all__ = ["to_html"]
