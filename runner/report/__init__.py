"""The report: one self-contained HTML file. Pure: rows in, text out.

page: to_html, over templates/page/: report.html.j2, style.css, a file a section
  conclusion    what was compared, when, on what, and what it says, in sentences
  sections      tables: results, baseline, problems
  details       what a row opens to
  plots         bars (throughput), points (memory), curves (loss, step time; a node each)
  scaling       series over device counts: table and plots
  svg           `draw`: one plot of a data frame
  timeline      what ran when; what failures cost
  groups        what cells are called, and forty of them as a few plots that can be read
"""
