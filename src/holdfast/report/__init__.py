"""The report: one self-contained HTML page on what was promised, to whom, and how sure it is."""
