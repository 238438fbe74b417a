"""Runs calls of tools to their end, as the loop does."""

from ikigai.agent.jobs import SettingsInForce
from ikigai.core.events.messages import ToolCall, ToolResult
from ikigai.core.views.questions import Question, QuestionAnswer
from ikigai.tools.registry import ToolRegistry


async def run_call(tools: ToolRegistry, call: ToolCall) -> ToolResult:
    """Have the call decided, where nothing is asked, and return its result."""

    async def ask(question: Question) -> QuestionAnswer:
        raise AssertionError(f"nobody is asked: {question}")

    started = await tools.start(call, 1, SettingsInForce({}), ask)
    if started.refusal:
        return ToolResult(call.id, started.refusal, is_error=True)
    return await tools.run(call, lambda text: None)
