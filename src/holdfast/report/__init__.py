"""The report: one self-contained HTML page on what was promised, to whom, and how sure it is.

write      write_report   the page as a file
gather     gather         everything that it says, as plain values
contents   Contents       those values
radii, counter, groups, comparison, words   the parts that gather puts together
page       render         from the values to HTML
"""

from holdfast.report.contents import Contents
from holdfast.report.gather import gather
from holdfast.report.write import write_report

__all__ = ["Contents", "gather", "write_report"]
