"""The terminal: the only importer of prompt_toolkit and rich."""

import sys
from types import ModuleType

if "prompt_toolkit" not in sys.modules:
    # Importing any part of it imports all its dialogs and progress bars; the screen needs none, and has to be there soon.
    sys.modules["prompt_toolkit.shortcuts"] = ModuleType("prompt_toolkit.shortcuts")
    sys.modules["prompt_toolkit.shortcuts"].__dict__["__getattr__"] = lambda name: None
