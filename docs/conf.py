"""The site: ``make docs`` builds it into docs/_build/html, without the network; warnings are errors."""

from __future__ import annotations

import warnings

import rankwolf

project = "Rankwolf"
author = "The Rankwolf developers"
copyright = "2026, the Rankwolf developers"
version = release = rankwolf.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "gallery/*.md5", "gallery/*.ipynb", "gallery/*.py", "gallery/*.json"]
templates_path = ["_templates"]
nitpicky = True
# Words in "Parameters" and "Returns" that are not names of Python objects are not looked up.
nitpick_ignore_regex = [("py:.*", ".*")]
suppress_warnings = ["config.cache", "myst.header"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "Rankwolf"
html_static_path = ["_static"]
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 6,
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"[/\\]plot_",
    "within_subsection_order": "FileNameSortKey",
    "show_memory": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "min_reported_time": 1,
    "plot_gallery": True,
    "abort_on_example_error": True,
    "default_thumb_file": "docs/demo.png",
}

warnings.filterwarnings("error", category=DeprecationWarning, module="rankwolf")
