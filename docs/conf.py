"""Sphinx settings of the site. `tools/build_site.py` collects the pages and runs Sphinx with them."""

from __future__ import annotations

import inspect

from skyband import sinks

project = "Skyband"
author = "The Skyband authors"
html_title = "Skyband"
root_doc = "index"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

# Headings are linked by the same names as on a Git host.
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # a page can start with a list of its parts

# Docstrings write code in single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_rtype = False
python_use_unqualified_type_names = True

# The site fetches nothing from other hosts: Furo brings its own fonts, scripts and styles.
html_theme = "furo"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}


def _sinks_under_their_public_names() -> None:
    """Document `skyband.sinks.Csv` and the other sinks under these names, with the descriptions of their keys."""
    for name in sinks.__all__:
        sink = getattr(sinks, name)
        keys = [(key, field.description) for key, field in sink.model_fields.items() if field.description]
        listed = "\n".join(f"* ``{key}``: {said}" for key, said in keys)
        sink.__name__, sink.__module__ = name, "skyband.sinks"
        sink.__doc__ = f"{inspect.cleandoc(sink.__doc__ or '')}\n\n{listed}\n"


_sinks_under_their_public_names()
