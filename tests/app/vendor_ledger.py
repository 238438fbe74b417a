"""State random usage in the format of each vendor, and price it as the vendor's price list does."""

from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

import genai_prices

from ikigai.core.events.messages import Usage
from tests.providers.anthropic import messages_wire
from tests.providers.google import gemini
from tests.support.wire_server import DONE, call_delta, chunk, sse

TEXT = "Hi."
"""So short that its tokens are none by the least that bytes can be."""
UNKNOWN_CALL = {"id": "call_1", "name": "none", "arguments": "{}"}
MILLION = 1_000_000


class Reply(NamedTuple):
    """An answer to one request: `early` is the usage at the beginning of its stream, None for none.

    `ends` is False for a stream that stops short of its end, `says` the text or call in it, "" for nothing.
    """

    usage: Usage
    early: Usage | None
    says: str = TEXT
    ends: bool = True


# ── Chat Completions ──


def counts(usage: Usage) -> dict[str, Any]:
    """Return the usage in its usual form; a count of zero is left out."""
    prompt = {"cached_tokens": usage.cached, "cache_write_tokens": usage.written}
    completion = {"reasoning_tokens": usage.thinking}
    details = {"prompt_tokens_details": prompt, "completion_tokens_details": completion}
    stated = {name: {key: count for key, count in each.items() if count} for name, each in details.items()}
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        **{name: each for name, each in stated.items() if each},
    }


def flat(field: str) -> Callable[[Usage], dict[str, Any]]:
    """Return the form of a server that states the cached tokens in a field of their own."""

    def state(usage: Usage) -> dict[str, Any]:
        stated = counts(usage)
        stated.pop("prompt_tokens_details", None)
        return stated | {field: usage.cached}

    return state


def counts_of_xai(usage: Usage) -> dict[str, Any]:
    cost = {} if usage.cost is None else {"cost_in_usd_ticks": round(Decimal(repr(usage.cost)) * 10**10)}
    return counts(usage) | {"completion_tokens": usage.output - usage.thinking} | cost


def counts_of_openrouter(usage: Usage) -> dict[str, Any]:
    if usage.cost is None:
        return counts(usage)
    if usage.input % 2:
        return counts(usage) | {"cost": usage.cost, "is_byok": False}
    fee = usage.cost / 21
    return counts(usage) | {"cost": fee, "is_byok": True, "cost_details": {"upstream_inference_cost": usage.cost - fee}}


def at_the_end(usage: dict[str, Any]) -> dict[str, Any]:
    return {"id": "x", "choices": [], "usage": usage}


def in_the_choice(usage: dict[str, Any]) -> dict[str, Any]:
    return {"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": None, "usage": usage}]}


def in_x_groq(usage: dict[str, Any]) -> dict[str, Any]:
    return chunk(x_groq={"id": "req_1", "usage": usage})


def chat(
    state: Callable[[Usage], dict[str, Any]] = counts, place: Callable[[dict[str, Any]], dict[str, Any]] = at_the_end
) -> Callable[[Reply], bytes]:
    """Return the stream of a server that states its usage so, there."""

    def stream(reply: Reply) -> bytes:
        chunks: list[Any] = [chunk({"role": "assistant", "content": ""})]
        chunks += [place(state(reply.early))] if reply.early else []
        if reply.says == UNKNOWN_CALL["name"]:
            chunks.append(chunk({"tool_calls": [call_delta(0, **UNKNOWN_CALL)]}))
        elif reply.says:
            chunks.append(chunk({"content": reply.says}))
        if reply.ends:
            finish = "tool_calls" if reply.says == UNKNOWN_CALL["name"] else "stop"
            chunks += [chunk(finish=finish), place(state(reply.usage)), DONE]
        return sse(*chunks)

    return stream


# ── the vendors' own ──


def responses(reply: Reply) -> bytes:
    """Usage stands in the last event alone, also after a failure before the first word."""
    usage = reply.usage
    stated = {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.written},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.thinking},
        "total_tokens": usage.input + usage.output,
    }
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"status": "in_progress", "output": []}}]
    if not reply.says:
        error = {"code": "server_error", "message": "The server had an error."}
        early = {"input_tokens": reply.early.input, "output_tokens": reply.early.output} if reply.early else None
        failed = {"status": "failed", "output": [], "error": error, "usage": early}
        return sse(*events, {"type": "response.failed", "response": failed})
    items: list[dict[str, Any]] = [
        {
            "type": "web_search_call",
            "id": f"ws_{number}",
            "status": "completed",
            "action": {"type": "search", "query": "news", "queries": ["news"], "sources": []},
        }
        for number in range(usage.searches if reply.ends else 0)  # a cut answer counts those seen: an estimate
    ]
    if reply.says == UNKNOWN_CALL["name"]:
        call = {"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "call_1"}
        items.append(call | {"name": UNKNOWN_CALL["name"], "arguments": "{}"})
    else:
        content = [{"type": "output_text", "text": reply.says, "annotations": []}]
        items.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content})
    for index, item in enumerate(items):
        begun = item | {"status": "in_progress"} | ({"content": []} if "content" in item else {})
        events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        if "content" in item:
            place = {"output_index": index, "item_id": "msg_1", "content_index": 0}
            events.append({"type": "response.output_text.delta", "delta": reply.says, **place})
        if reply.ends:
            events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    if reply.ends:
        completed = {"status": "completed", "output": items, "usage": stated}
        events.append({"type": "response.completed", "response": completed})
    return sse(*events)


def messages(reply: Reply) -> bytes:
    """Each figure counts as it was stated last; what was stated at the start need not come again."""

    def state(usage: Usage) -> dict[str, Any]:
        return {
            "input_tokens": usage.input - usage.cached - usage.written,
            "cache_read_input_tokens": usage.cached,
            "cache_creation_input_tokens": usage.written,
            "cache_creation": {"ephemeral_1h_input_tokens": usage.written_1h},
            "output_tokens": usage.output,
        }

    begun = messages_wire.start()
    begun["message"]["usage"] = state(reply.early) if reply.early else None
    events = [begun, {"type": "ping"}]
    if reply.says == UNKNOWN_CALL["name"]:
        events += [messages_wire.block(0, "tool_use", id="toolu_1", name="none", input={}), messages_wire.stop(0)]
    elif reply.says:
        events += [messages_wire.block(0, "text", text=""), messages_wire.said(0, reply.says)]
        events += [messages_wire.stop(0)] if reply.ends else []
    if reply.ends:
        usage: dict[str, Any] = {"output_tokens": reply.usage.output} if reply.early else state(reply.usage)
        usage["output_tokens_details"] = {"thinking_tokens": reply.usage.thinking}
        if reply.usage.searches:
            usage["server_tool_use"] = {"web_search_requests": reply.usage.searches}
        finish = messages_wire.finish("tool_use" if reply.says == UNKNOWN_CALL["name"] else "end_turn")
        events += [finish | {"usage": usage}, messages_wire.END]
    return messages_wire.sse(*events)


def contents(reply: Reply) -> bytes:
    """Thoughts stand besides the reply, and a tenth of the input belongs to tools."""

    def state(usage: Usage) -> dict[str, Any]:
        of_tools = usage.input // 10
        stated = {
            "promptTokenCount": usage.input - of_tools,
            "toolUsePromptTokenCount": of_tools,
            "cachedContentTokenCount": usage.cached,
            "candidatesTokenCount": usage.output - usage.thinking,
            "thoughtsTokenCount": usage.thinking,
        }
        return {"usageMetadata": {name: count for name, count in stated.items() if count}}

    early = state(reply.early) if reply.early else {}
    chunks = [{"candidates": [], **early}]
    if reply.says == UNKNOWN_CALL["name"]:
        chunks.append(gemini.chunk(gemini.call("none", {}, "g1"), **early))
    elif reply.says:
        chunks.append(gemini.chunk(gemini.text(reply.says), **early))
    if reply.ends:
        last = gemini.chunk(finish="STOP", **state(reply.usage))
        if reply.usage.searches:
            queries = [f"news {number}" for number in range(reply.usage.searches)]
            last["candidates"][0]["groundingMetadata"] = {"webSearchQueries": queries}
        chunks.append(last)
    return gemini.sse(*chunks)


# ── all ──


class Vendor(NamedTuple):
    """A vendor's server: the figures that its usage can have, besides input and output, and who says its prices.

    `book` is its name in genai-prices; without it `prices` are configured, in dollars for a million tokens: in, out,
    cached and written. `fee` is what a thousand searches cost that the book has no price for.
    """

    model: str
    url: str
    stream: Callable[[Reply], bytes]
    figures: tuple[str, ...]
    book: str = ""
    prices: tuple[str, str, str, str] = ("1.5", "7.25", "0.125", "1.875")
    fee: int = 0

    def draw(self, draw: Random, share: float) -> Usage:
        """Return random usage; this `share` of the figures is stated."""
        input, output = draw.randrange(1, 20_000), draw.randrange(1, 3_000)
        has = {name: name in self.figures and draw.random() < share for name in Usage.__struct_fields__}
        cached = draw.randrange(input) if has["cached"] else 0
        written = draw.randrange(input - cached + 1) if has["written"] else 0
        return Usage(
            input,
            output,
            cached,
            draw.randrange(output + 1) if has["thinking"] else 0,
            written,
            cost=round(draw.random() / 10, 8) if has["cost"] else None,
            written_1h=draw.randrange(written + 1) if has["written_1h"] else 0,
            searches=draw.randrange(1, 4) if has["searches"] else 0,
        )

    def cost(self, usage: Usage) -> Decimal:
        """Return the cost in dollars."""
        if usage.cost is not None:
            return Decimal(repr(usage.cost))
        if not self.book:
            fresh = usage.input - usage.cached - usage.written
            charged = zip((fresh, usage.output, usage.cached, usage.written), self.prices, strict=True)
            return sum((count * Decimal(price) for count, price in charged), Decimal(0)) / MILLION
        counted = genai_prices.Usage(
            input_tokens=usage.input,
            cache_read_tokens=usage.cached,
            cache_write_tokens=usage.written,
            cache_write_1h_tokens=usage.written_1h,
            output_tokens=usage.output,
            web_searches=None if self.fee else usage.searches or None,
        )
        listed = genai_prices.calc_price(counted, self.model.partition("/")[2], provider_id=self.book)
        return listed.total_price + Decimal(usage.searches * self.fee) / 1_000


SPARE = Vendor("spare/m", "spare.example/v1/chat/completions", chat(), ("cached", "written", "thinking"))
VENDORS = [
    Vendor("mine/m", "mine.example/v1/chat/completions", chat(), ("cached", "written", "thinking")),
    Vendor(
        "google/gemini-3.8-flash",
        "generativelanguage.googleapis.com/v1beta/models/gemini-3.8-flash:streamGenerateContent",
        contents,
        ("cached", "thinking", "searches"),
        "google",
        fee=14,
    ),
    Vendor(
        "deepseek/deepseek-chat",
        "api.deepseek.com/chat/completions",
        chat(flat("prompt_cache_hit_tokens")),
        ("cached", "thinking"),
        "deepseek",
    ),
    Vendor(
        "openai/gpt-6.1-sol",
        "api.openai.com/v1/responses",
        responses,
        ("cached", "written", "thinking", "searches"),
        "openai",
        fee=10,
    ),
    Vendor(
        "mistral/mistral-large-latest",
        "api.mistral.ai/v1/chat/completions",
        chat(flat("num_cached_tokens")),
        ("cached",),
        "mistral",
    ),
    Vendor(
        "moonshot/kimi-k2-0905-preview",
        "api.moonshot.ai/v1/chat/completions",
        chat(flat("cached_tokens"), in_the_choice),
        ("cached", "thinking"),
        "moonshotai",
    ),
    Vendor(
        "anthropic/claude-sonnet-5-5",
        "api.anthropic.com/v1/messages",
        messages,
        ("cached", "written", "written_1h", "thinking", "searches"),
        "anthropic",
    ),
    Vendor(
        "groq/openai/gpt-oss-120b",
        "api.groq.com/openai/v1/chat/completions",
        chat(place=in_x_groq),
        ("cached", "thinking"),
        "groq",
    ),
    Vendor("xai/grok-4", "api.x.ai/v1/chat/completions", chat(counts_of_xai), ("cached", "thinking", "cost"), "x-ai"),
    Vendor(
        "openrouter/openai/gpt-5",
        "openrouter.ai/api/v1/chat/completions",
        chat(counts_of_openrouter),
        ("cached", "written", "thinking", "cost"),
        "openrouter",
    ),
]
"""In this order they meet the kinds of turns: OpenAI a failure that states usage, Anthropic an interruption."""
