"""Run ikigai and write down when the SDK of a provider is loaded: python … FILE [ARGUMENT …]

A line in FILE is the time of `time.perf_counter` at which a provider had its client.
"""

import sys
import time
from typing import Any

from ikigai.cli.main import main
from ikigai.providers.streaming import StreamingProvider

file, *arguments = sys.argv[1:]
load = StreamingProvider._connected


def load_and_record(provider: StreamingProvider) -> Any:
    client = load(provider)
    with open(file, "a") as out:
        out.write(f"{time.perf_counter()}\n")
    return client


StreamingProvider._connected = load_and_record
sys.argv = ["ikigai", *arguments]
sys.exit(main())
