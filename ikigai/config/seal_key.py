"""Key of the seals by which this user's programs recognize their own choices.

The key is random, made when settings are stored for the first time, and lies in a private file in the data folder. It
leaves the machine with no dump and no export: what it sealed has to be chosen again elsewhere.
"""

import logging
import os
from functools import cache

from ikigai.core.errors import IkigaiError
from ikigai.system import private_json
from ikigai.system.paths import data_dir, make_private

SEAL_FILE = "seal.json"
"""Name of the file, in the data folder."""
_DAMAGED = ("the key of what you have granted", "Delete it; what was granted has to be chosen again.")

log = logging.getLogger(__name__)


def seal(data: bytes) -> str:
    """Return the seal of these bytes."""
    import hmac

    return hmac.digest(_key(), data, "sha256").hex()[:32]


@cache
def _key() -> bytes:
    """Return the key; one for this run alone if the file cannot be used."""
    try:
        with private_json.open_for_change(make_private(data_dir()) / SEAL_FILE, str, *_DAMAGED) as stored:
            stored.setdefault("key", os.urandom(32).hex())
            return bytes.fromhex(stored["key"])
    except (IkigaiError, OSError, ValueError):
        log.warning("What is granted in this run holds for this run alone", exc_info=True)
        return os.urandom(32)
