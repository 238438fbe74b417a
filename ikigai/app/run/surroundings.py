"""Find out where a turn runs, for the default system prompt."""

import platform
from datetime import date
from functools import cache, lru_cache

from ikigai.core.request.default_prompt import Surroundings
from ikigai.system.paths import current_directory


def find_surroundings() -> Surroundings:
    """Return the surroundings of a turn that begins now."""
    return Surroundings(current_directory(), _operating_system(), _written_date(date.today()))


@lru_cache(maxsize=1)
def _written_date(day: date) -> str:
    return f"{day:%Y-%m-%d (%A)}"


@cache
def _operating_system() -> str:
    """Return the name of the system, with its distribution: it says which commands there are."""
    try:
        return f"{platform.system()} ({platform.freedesktop_os_release()['PRETTY_NAME']})"
    except (OSError, KeyError):
        return platform.platform(terse=True)
