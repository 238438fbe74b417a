"""The terminal: the only importer of prompt_toolkit and rich."""

import importlib.util
import sys

if "prompt_toolkit" not in sys.modules and (spec := importlib.util.find_spec("prompt_toolkit")):
    # Its __init__ imports every dialog and progress bar there is; the screen needs some submodules, and soon.
    sys.modules["prompt_toolkit"] = importlib.util.module_from_spec(spec)
