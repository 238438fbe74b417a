"""Web search that a model's vendor runs by itself: its tool set, its limits, and its texts."""

from collections.abc import Iterable

import msgspec

from ikigai.core.events.messages import ToolCall, ToolResult, ToolSpec

VENDOR_SEARCH = "vendor_search"
"""The name of the tool, and of its set."""
VENDOR_SEARCH_SPEC = ToolSpec(
    VENDOR_SEARCH, "Search the web by the vendor of the model, which charges for it.", "{}", VENDOR_SEARCH, hosted=True
)
REPLACED_TOOL = "web_search"
"""ikigai's own search, which is not offered beside the vendor's: Anthropic's has its name."""

SEARCH_CONSENT = "the vendor searches the web without asking, and charges for each search"
"""The note that switching the set on comes with."""

MAX_SEARCHES = 5
"""Searches that one request may make: Anthropic and OpenAI are told so; Google has no such limit."""
SEARCH_INPUT_TOKENS = 10_000
"""Tokens of input that spending caps allow for the pages of one search. No vendor states a limit."""
MAX_PAUSED_CALLS = 50
"""Hosted calls of one reply after which it is not continued any more."""

UNKNOWN_OUTCOME = "The reply ended before the result of this call came."


def find_pages(pages: Iterable[tuple[str, str]]) -> str:
    """Return pages, as titles and addresses, as the text of a result."""
    return "\n".join(f"{title} {url}".strip() for title, url in pages) or "No pages."


def hosted_query(call: ToolCall) -> str:
    """Return what a hosted call asks for, in words."""
    try:
        values = msgspec.json.decode(call.arguments, type=dict[str, str | list[str]]).values()
    except (ValueError, RecursionError):  # not as any vendor has it
        return call.arguments
    return ", ".join(value if isinstance(value, str) else ", ".join(value) for value in values)


def hosted_text(call: ToolCall | None, result: ToolResult) -> str:
    """Return a hosted call and its result as words, for a model that cannot be sent them as they came."""
    outcome = "failed" if result.is_error else "found"
    asked = hosted_query(call) if call else "unknown"
    return f"[{result.name or VENDOR_SEARCH}: {asked}; {outcome}:]\n{result.content}"
