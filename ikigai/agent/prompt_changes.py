"""Changes of the prompt that a turn begins with: the project's instructions, the default system prompt, MCP tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ikigai.core.events import Event
from ikigai.core.request.system_prompt import INSTRUCTIONS_KEY, with_instructions
from ikigai.core.state.decisions import decide
from ikigai.core.state.inputs import DefaultSystemChanged, InstructionsChanged, McpToolsChanged
from ikigai.core.state.memory import Memory, replace

if TYPE_CHECKING:
    from ikigai.agent.loop_options import PromptSource


def change_prompt(memory: Memory, source: PromptSource) -> tuple[Memory, tuple[Event, ...]]:
    """Return memory with the instructions of `source`, and the events about what else is in force than before."""
    events: tuple[Event, ...] = ()
    run, instructions = memory.run, source.instructions()
    if (run.below.get(INSTRUCTIONS_KEY) or "") != instructions:
        events = decide(memory, InstructionsChanged(instructions))
        memory = replace(memory, run=replace(run, below=with_instructions(run.below, instructions)))
    events += decide(memory, DefaultSystemChanged(source.default_system(memory)))
    return memory, events + decide(memory, McpToolsChanged(source.mcp_tools(memory)))
