"""Run ikigai and write down the modules loaded at its prompt: python … FILE [ARGUMENT …]

The prompt is drawn twice: early, when the terminal is taken, and again by prompt_toolkit, which then takes keys. Both
moments become a line of names in FILE. Everything that reaches the terminal goes through os.write.
"""

import os
import sys

path, *arguments = sys.argv[1:]
write = os.write
drawn: set[bool] = set()


def watched(fd, data):
    current = sys.modules.get("prompt_toolkit.application.current")
    takes_keys = current is not None and current.get_app_or_none() is not None
    if takes_keys not in drawn and "❯".encode() in bytes(data):
        drawn.add(takes_keys)
        names = f"{'keys' if takes_keys else 'paint'} {' '.join(sorted(sys.modules))}\n"
        with open(path, "a") as file:
            file.write(names)
    return write(fd, data)


os.write = watched
sys.argv = ["ikigai", *arguments]

from ikigai.cli.main import main  # noqa: E402

sys.exit(main())
