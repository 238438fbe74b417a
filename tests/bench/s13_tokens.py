"""Measure S13: the difference of the token figure from the provider's count, estimated and calibrated.

The estimate is by bytes, the calibration by one report. The provider is llama.cpp with the small model, which reports
its count with every reply. Its vocabulary is small and made for English: the figure has more to make up for than with
the vendors' own models.
"""

import argparse
import asyncio
import base64
import inspect
import json
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pydoc_data.topics import topics
from random import Random
from typing import NamedTuple

from ikigai.core.events.events import UsageReported
from ikigai.core.events.messages import ReplyBlock, StopReason, Text, ToolCall, ToolResult, ToolSpec, Usage
from ikigai.core.request.model import ModelLimits
from ikigai.core.request.reply import StreamFailed, StreamFinished, TextDelta
from ikigai.core.request.reply_builder import ReplyBuilder
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.inputs import Approved, CallModel, Replied, RunTool, StartTool, Submitted, ToolDone
from ikigai.core.state.memory import next_request, plain_size
from ikigai.core.text import tokens
from ikigai.providers.local.model_server import LocalServer
from ikigai.providers.models.models import ModelTraits
from ikigai.providers.openai.provider import OpenAIProvider
from tests.bench.figures import Figure
from tests.bench.prose import Prose
from tests.core.agent import Agent
from tests.support.local_weights import smol_weights

BAR = 0.15
KINDS = ("prose", "code", "CJK", "base64", "tool calls")
CHINESE = (
    "今天的天气很好，我们决定去公园散步。",
    "这个函数返回列表中第一个满足条件的元素。",
    "数据库连接失败时，程序会等待几秒后重试。",
    "他昨天写的报告还没有交给老师看过。",
    "请把所有的文件备份到另一台服务器上。",
    "上海是中国人口最多的城市之一，交通十分发达。",
    "如果输入为空，就直接显示提示信息。",
    "この関数は、与えられた文字列を逆順にして返します。",
    "明日は雨が降るそうなので、傘を持って行きましょう。",
    "エラーが発生した場合は、ログファイルを確認してください。",
)
TOOLS = (ToolSpec("shell", "Run a command", '{"type":"object","properties":{"command":{"type":"string"}}}'),)


class Content(NamedTuple):
    """The content of a turn besides a question: words of the user, or calls with their results."""

    words: str = ""
    calls: tuple[tuple[str, str], ...] = ()


def measure(quick: bool) -> list[Figure]:
    return asyncio.run(compare(400 if quick else 2_500, KINDS))


async def compare(size: int, kinds: Sequence[str]) -> list[Figure]:
    """Compare turns of `size` bytes each, of these kinds of content."""
    server = await asyncio.to_thread(LocalServer.start, smol_weights())
    provider = OpenAIProvider("local", server.base_url, server.api_key, traits=lambda _: ModelTraits(images=False))
    figures: list[Figure] = []
    try:
        contents = _contents(size)
        for kind in kinds:
            figures += await _Counting(server, provider).figures(kind, contents[kind])
    finally:
        await provider.close()
        server.close()
    return figures


class _Counting:
    """A conversation of one kind of content, with its figure and the provider's count."""

    def __init__(self, server: LocalServer, provider: OpenAIProvider) -> None:
        settings = {"model": f"local/{server.name}", "system": "You are a helpful assistant.", "budget": 100_000}
        limits = ModelLimits(server.context, 8)
        run = RunConfig(
            settings, lambda _: limits, lambda _: provider.encoder(server.name), tools=TOOLS, counter="calibrated"
        )
        self._agent, self._provider = Agent(run), provider

    async def figures(self, kind: str, contents: tuple[Content, Content]) -> list[Figure]:
        """Return figures after the first turn, whose report calibrates; and while an equally long one is open."""
        first, second = contents
        await self._turn(first)
        self._agent.happen(Submitted("Go on."))
        told, plain = self._agent.memory.used, self._bytes()
        counted = (await self._reply()).input
        self._agent.happen(Submitted(f"And this?\n{second.words or json.dumps(second.calls)}"))
        opened = self._agent.memory.used
        later = (await self._ask())[1].input
        return [
            _off(f"{kind}: tokens off, calibrated", told, counted, BAR),
            _off(f"{kind}: tokens off, by bytes", plain, counted),
            _off(f"{kind}: tokens off, calibrated, as much again not yet", opened, later),
        ]

    async def _turn(self, content: Content) -> None:
        self._agent.happen(Submitted(f"Look at this.\n{content.words}"))
        if content.calls:
            calls = [ToolCall(f"call_{n}", "shell", arguments) for n, (arguments, _) in enumerate(content.calls)]
            self._said(*calls)
            for _, printed in content.calls:
                self._agent.happen(Approved(self._agent.job(StartTool)))
                job = self._agent.job(RunTool)
                self._agent.happen(ToolDone(job, ToolResult(job.call.id, printed)))
        await self._reply()

    async def _reply(self) -> Usage:
        """Return the provider's count of the request; its reply is stored, and ends the turn."""
        size = plain_size(self._agent.memory)
        text, usage = await self._ask()
        self._said(Text(text), usage=UsageReported(self._agent.memory.model, usage, size=size))
        return usage

    async def _ask(self) -> tuple[str, Usage]:
        said = ReplyBuilder()
        async with aclosing(self._provider.stream(next_request(self._agent.memory))) as events:
            async for event in events:
                match event:
                    case TextDelta():
                        said.add(event)
                    case StreamFinished(_, usage):
                        return said.text, usage
                    case StreamFailed(_, text):
                        raise RuntimeError(text)
                    case _:
                        pass
        raise RuntimeError("the stream has no end")

    def _said(self, *blocks: ReplyBlock, usage: UsageReported | None = None) -> None:
        job = self._agent.job(CallModel)
        reported = usage or UsageReported(self._agent.memory.model)
        self._agent.happen(Replied(job, blocks, StopReason.END, reported))

    def _bytes(self) -> int:
        return tokens.count_tokens("", "", plain_size(self._agent.memory))


def _off(what: str, told: int, counted: int, bar: float | None = None) -> Figure:
    return Figure("S13", what, "tokens", [abs(told - counted)], "the provider's count", [counted], bar)


def _contents(size: int) -> dict[str, tuple[Content, Content]]:
    """Return two contents of every kind, about `size` bytes each."""
    rng = Random(13)
    prose = " ".join(text for name, text in sorted(topics.items()) if name in ("exceptions", "objects", "execmodel"))
    code = inspect.getsource(argparse)
    chinese = "".join(rng.choice(CHINESE) for _ in range(size // 15))
    random = base64.b64encode(rng.randbytes(2 * size)).decode()
    texts = {"prose": prose, "code": code, "CJK": chinese, "base64": random}
    found = {kind: tuple(Content(text) for text in _cut(text, size)) for kind, text in texts.items()}
    found["tool calls"] = tuple(Content(calls=tuple(_calls(Prose(rng), size))) for _ in range(2))
    return found  # type: ignore[return-value]


def _cut(text: str, size: int) -> Iterator[str]:
    """Yield the first two pieces of `size` bytes."""
    encoded = text.encode()
    for at in (0, size):
        yield encoded[at : at + size].decode(errors="ignore")


def _calls(prose: Prose, size: int) -> Iterator[tuple[str, str]]:
    while size > 0:
        arguments = json.dumps({"command": f"grep -rn {prose.name()} {prose.path()} | head -50", "timeout": 120})
        printed = json.dumps([{"path": prose.path(), "line": n, "id": prose.hash()} for n in range(1, 4)])
        yield arguments, printed
        size -= len(arguments) + len(printed) + 120
