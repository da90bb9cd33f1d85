"""The report: one self-contained HTML file. Pure: rows in, text out.

page: to_html, over templates/page/: report.html.j2, style.css, a file a section
  conclusion    what was compared, when, on what, and what it says, in sentences
  sections      tables: results, baseline, problems
  scaling       series over device counts: table and plots
  plots         bars (throughput), points (memory), curves (loss, step time)
                and node_curves (a node each), drawn by `svg`
  timeline      what ran when
  groups        forty cells as a few plots that can be read
"""
