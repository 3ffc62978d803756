"""The report: one self-contained HTML page on what was promised, to whom, and how sure it is.

write      report         the page as a file
gather     gather         everything that it says, as plain values
contents   Contents       those values
radii, counter, groups, comparison, words   the parts that gather puts together
page       render         from the values to HTML
"""

from holdfast.presentation.report._page import report

__all__ = ["report"]
