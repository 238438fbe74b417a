"""Settings of the documentation's site: python -m sphinx -W -b html docs build/docs."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent

project = "ikigai"
author = "The ikigai maintainers"
copyright = author  # Sphinx reads this name
release = re.findall(r'__version__ = "(.*)"', (ROOT / "ikigai" / "__init__.py").read_text())[0]

extensions = ["myst_parser", "sphinx_copybutton"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
exclude_patterns = ["conf.py"]
nitpicky = True
smartquotes = False  # quotes of settings are typed as they stand

html_theme = "furo"
html_title = f"ikigai {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"

linkcheck_timeout = 20
linkcheck_retries = 2
