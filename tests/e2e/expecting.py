"""This module runs the real program, and notes the messages whose requests it builds ahead: python … FILE"""

import sys
from pathlib import Path

from ikigai.cli import main as cli
from ikigai.core.request.build import Request
from ikigai.providers.held_request import HeldRequest
from ikigai.providers.streaming import StreamingProvider

file = Path(sys.argv.pop(1))
expect, want = StreamingProvider.expect, HeldRequest.want


def write(word: str, request: Request) -> None:
    with file.open("a") as out:
        out.write(f"{word} {request.messages[-1].text}\n")


def expecting(self: StreamingProvider, request: Request) -> None:
    if self._client is not None:
        write("expected", request)
    expect(self, request)


def wanting(self: HeldRequest[object]) -> bool:
    is_usable = want(self)
    write("taken" if is_usable else "dropped", self.request)
    return is_usable


if __name__ == "__main__":
    StreamingProvider.expect = expecting
    HeldRequest.want = wanting
    sys.exit(cli.main())
