"""Give tests the local model's weights, which are fetched once and kept between runs."""

import os
from functools import cache
from pathlib import Path

from ikigai.providers.local import weights


@cache
def smol_weights() -> Path:
    """Return the GGUF file of SmolLM2-135M-Instruct; IKIGAI_TEST_CACHE names another folder than
    ~/.cache/ikigai-tests.
    """
    folder = Path(os.environ.get("IKIGAI_TEST_CACHE") or Path.home() / ".cache" / "ikigai-tests")
    return weights.find(folder) or weights.fetch(folder)
