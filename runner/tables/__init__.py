"""The comparison table: one row per cell, compared, scaled, and written in four formats.

Pure: records in, rows and text out. Units are in the machine names of the columns. People read a
dash where a number is missing, machines an empty field or null; a missing number is never 0.

    records -> build.rows: row.Row, with efficiency and baseline
            -> machine: to_csv, to_json
            -> columns, footnotes -> selection -> terminal: to_table, markdown: to_markdown
            -> entries -> document_tables (osdi, ascend), pivot -> sheet: the four formats
"""
