"""The site that `make docs` builds: Markdown pages, and the reference out of the docstrings. Nothing is downloaded."""

from __future__ import annotations

import sys
from pathlib import Path

import holdfast

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_ext"))

project = "holdfast"
author = "The holdfast developers"
copyright = author
version = release = holdfast.__version__
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "holdfast_site",
]
exclude_patterns = ["_ext", "figures"]
# `name` in a docstring is a name of ours, and a link where the reference has it.
default_role = "py:obj"

# Mathematics is written in plain characters, so that a page reads the same here, in an editor and without a network.
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block", "deflist"]
# Attributes of several classes share a name; the reference does not guess which one a text means.
# Pages that a command writes are reached from measurements.md and are not in the side bar; a test has the others there.
suppress_warnings = ["ref.python", "toc.not_included"]
# Options are typeset as typed: --delta, not a dash.
smartquotes = False

autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
# Short names of types in signatures.
autodoc_type_aliases = {
    **{name: name for name in ("ArrayLike", "Names", "Orders", "Range", "Rules")},
    "Floats": "ndarray[float64]",
    "Space": "FeatureSpace",
    "Table": "DataFrame | ndarray",
}
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
python_display_short_literal_types = True
napoleon_google_docstring = False
# Names that share a description are listed together, as they are written.
napoleon_use_param = False
napoleon_attr_annotations = False
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"holdfast {release}"
html_static_path = ["_static"]
html_css_files = ["holdfast.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5394", "color-brand-content": "#0b5394"},
    "dark_css_variables": {"color-brand-primary": "#8ab8e6", "color-brand-content": "#8ab8e6"},
}
# Of furo's own dependencies, with enough contrast to be read.
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
# Printed results are for comparison, not for copying.
copybutton_selector = "div.highlight-python pre, div.highlight-sh pre, div.highlight-json pre"
