"""How Sphinx builds the site. `python -m study site` lays out the source beside this file, then runs Sphinx on it.

The pages ask nothing of the network and carry no date of building: they open from a folder, under any path of a
server, and the same source gives the same bytes.
"""

import sys
from pathlib import Path

import study

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "vllm-compile-study"
author = "The vllm-compile-study authors"
project_copyright = "the vllm-compile-study authors, Apache-2.0"
version = release = study.__version__

extensions = ["myst_nb", "sphinx_copybutton", "sphinx_design", "page_tables"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
# Executed copies are shown as they are; nothing runs when the site is built. Widgets would be fetched from elsewhere.
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
nb_merge_streams = True
# `--enforce-eager` is a flag, not a dash.
smartquotes = False
nitpicky = True

html_theme = "sphinx_book_theme"
html_title = "vLLM compile study"
html_static_path = ["_static"]
html_favicon = "_static/icon.svg"
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_last_updated_fmt = None
html_show_sphinx = False
html_show_sourcelink = False
html_copy_source = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "show_navbar_depth": 1,
    "max_navbar_depth": 3,
    "show_toc_level": 2,
    "navbar_persistent": [],
    "use_download_button": False,
    "use_fullscreen_button": False,
    "search_bar_text": "Search ...",
}
