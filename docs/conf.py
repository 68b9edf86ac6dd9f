"""The site: ``make docs`` builds it into docs/_build/html without the network; warnings are errors."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path

from docutils import nodes

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))

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
exclude_patterns = [
    "_build", "gallery/*.md5", "gallery/*.ipynb", "gallery/*.py", "gallery/*.json",
    "sg_execution_times.rst", "gallery/sg_execution_times.rst",  # these pages fetch scripts from elsewhere
]  # fmt: skip
templates_path = ["_templates"]
# Every cross-reference must lead somewhere; those to other projects are written without a role.
nitpicky = True

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
myst_url_schemes = ("https", "mailto")

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
# Blocks in the pages are run by docs/blocks.py; examples in docstrings by the doctest builder.
doctest_test_doctest_blocks = "default"
doctest_global_setup = "import numpy as np\nimport rankwolf as rw"

html_theme = "pydata_sphinx_theme"
html_title = "Rankwolf"
html_static_path = ["_static"]
html_css_files = ["rankwolf.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher"],
}
html_sidebars = {"index": [], "what_do_you_know": [], "comparison": [], "coming_from": []}

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"[/\\]plot_",
    "within_subsection_order": "FileNameSortKey",
    "show_memory": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "min_reported_time": 1,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "show_signature": False,
    "image_scrapers": ("matplotlib",),
}

warnings.filterwarnings("error", category=DeprecationWarning, module="rankwolf")


def keep_bars(app, what, name, thing, options, lines):
    """|G| in a docstring is an absolute value, never a substitution of reStructuredText."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(``.*?``)", line)
            lines[number] = "".join(p if p.startswith("``") else p.replace("|", r"\|") for p in parts)


def keep_numbers_whole(app, doctree, name):
    """Numbers such as 1.2e-03 in tables stay on one line: a browser may break after a hyphen."""
    for entry in doctree.findall(nodes.entry):
        for text in [t for t in entry.findall(nodes.Text) if not isinstance(t.parent, nodes.literal)]:
            parts = re.split(r"(\d[\d.]*e-\d+)", text)
            if len(parts) > 1:
                kinds = (nodes.Text, lambda number: nodes.inline("", number, classes=["number"]))
                text.parent.replace(text, [kinds[k % 2](part) for k, part in enumerate(parts) if part])


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", keep_bars)
    app.connect("doctree-resolved", keep_numbers_whole)
