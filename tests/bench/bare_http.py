"""The least an exchange costs: a line read, a request with httpx, the words of the stream written as they come.

python -m tests.bench.bare_http URL
"""

import contextlib
import json
import sys

import httpx

with contextlib.suppress(EOFError, KeyboardInterrupt), httpx.Client(timeout=None, trust_env=False) as client:
    while True:
        line = input("❯ ")
        body = {"model": "x", "stream": True, "messages": [{"role": "user", "content": line}]}
        with client.stream("POST", sys.argv[1], json=body) as answer:
            for data in answer.iter_lines():
                if data.startswith("data: {"):
                    for choice in json.loads(data[6:])["choices"]:
                        sys.stdout.write(choice["delta"].get("content") or "")
                        sys.stdout.flush()
        print()
