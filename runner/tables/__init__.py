"""A campaign as rows: one a cell, compared, scaled, judged, and written in four formats.

Units are in the keys of the figures. People read a dash where a number is missing, machines an
empty field or null; a missing number is never 0.

    folder -> campaign_reading: campaign_document.CampaignDocument, once for all that shows it
    records -> build: figures.cell_figures -> row.Row, with baseline, scaling, verdict
            -> columns, notes -> campaign_table, text: terminal, Markdown, CSV
            -> machine_document: JSON
            -> shapes (osdi, ascend), pivot -> sheet: the four formats
"""
