"""Write the Messages format as clouds take it: the model in the path, the version in the body."""

from typing import Any

from ikigai.core.request.build import Request
from ikigai.providers.anthropic.messages_api import CACHE_BREAKPOINT, MessagesEncoder
from ikigai.providers.encoding import dumps

WEB_SEARCH_BETA = "web-search-2025-03-05"
"""The beta that Vertex's guide to Claude's web search names; others need none (partner-models/claude/web-search)."""
BREAKPOINT_FIELD = b',"cache_control":' + dumps(CACHE_BREAKPOINT)


class CloudMessagesEncoder(MessagesEncoder):
    """Bodies for a cloud with this `version` of the format. With `is_streamed_by_path` the path says that the reply
    streams, and betas stand in the body.

    Clouds know no breakpoint of the whole request, so the last block of the last message has it. Every message but that
    one keeps its bytes.
    """

    version = ""
    is_streamed_by_path = False

    def head(self, request: Request) -> dict[str, Any]:
        head = super().head(request)
        del head["model"], head["cache_control"]
        if self.is_streamed_by_path:
            del head["stream"]
            if beta := self.beta(request):
                head = {"anthropic_beta": beta.split(",")} | head
        return {"anthropic_version": self.version} | head

    def _framed_entries(
        self, head: dict[str, Any], preface: list[Any], pieces: list[bytes], left_out: frozenset[str] = frozenset()
    ) -> list[bytes]:
        if not pieces:  # to be measured: with the breakpoint
            [frame] = super()._framed_entries(head, preface, pieces, left_out)
            return [frame + BREAKPOINT_FIELD]
        last = pieces[-1]
        end = len(last) - len(b"}]}")
        marked = last[:end] + BREAKPOINT_FIELD + last[end:]
        return super()._framed_entries(head, preface, [*pieces[:-1], marked], left_out)


class BedrockMessagesEncoder(CloudMessagesEncoder):
    """Bodies for Amazon Bedrock."""

    version = "bedrock-2023-05-31"
    is_streamed_by_path = True


class VertexMessagesEncoder(CloudMessagesEncoder):
    """Bodies for Google Vertex AI."""

    version = "vertex-2023-10-16"

    def beta(self, request: Request) -> str:
        searches = any(tool.hosted for tool in request.tools)
        return ",".join(filter(None, (super().beta(request), WEB_SEARCH_BETA * searches)))

    def countable(self, request: Request) -> bytes:
        return dumps({"model": request.model})[:-1] + b"," + super().countable(request)[1:]
