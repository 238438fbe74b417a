"""Route the user's input to the agent on screen, and hold it while another agent is being opened.

An agent that is busy gets it at once, and decides itself what has to wait for the turn (`agent/input_queue`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ikigai.core.commands import table
from ikigai.core.errors import Bug, IkigaiError
from ikigai.core.state import inputs
from ikigai.repl.session import Session

if TYPE_CHECKING:
    from ikigai.agent.loop import AgentLoop
    from ikigai.core.events.messages import Document

log = logging.getLogger(__name__)

SendKind: TypeAlias = type[inputs.Submitted] | type[inputs.Steered]
"""How a message is sent: it begins a turn, or goes into the open one."""

KEYS_FIRST_SECONDS = 0.002
"""Seconds from the first paint until other work begins, so that keys typed meanwhile are shown first."""


class InputRouter:
    """Routes what the user enters to the agent on screen. `submit` takes the lines that have waited."""

    def __init__(self, session: Session, submit: Callable[[str], None]) -> None:
        self._session, self._submit = session, submit
        self._screen, self._view, self._active_agent = session.screen, session.view, session.active_agent
        self.opening = True  # True while an agent is being opened
        self.reading: asyncio.Task[None] | None = None  # work before all input, such as reading attachments
        self._can_stop = False  # it waits for the user or the web
        self.waits_for_turn = False  # True while lines wait for the turn to end, because a command needs that

    @property
    def is_holding(self) -> bool:
        """True if input has to wait: also for the answer to the question of a command."""
        return self.opening or self.reading is not None or self._view.asks_for_command

    @contextlib.contextmanager
    def switching(self) -> Iterator[None]:
        """Hold the input while another agent is being opened; return it to the prompt if that fails."""
        writable = False
        try:
            yield
            writable = self._active_agent.agent_loop is not None
        finally:
            self.opening = False
            held = self._active_agent.queue.take_before_open()
            if writable:
                for text in held:
                    self._submit(text)
            elif held:
                self._view.restore_input("\n".join(held))

    def release(self) -> None:
        """Submit the lines that have waited, in their order, unless they have to wait for something else."""
        if not (self.is_holding or self._session.closing):
            for text in self._active_agent.queue.take_before_open():
                self._submit(text)

    def send(self, text: str, kind: SendKind = inputs.Submitted, documents: Sequence[Document] = ()) -> None:
        """Send `text` as a message, even if it begins like a command, with these documents."""
        if documents or _may_mention(text):
            self.run_first(self._send_with_attachments(text, kind, documents))
        else:
            self.route(kind(text))

    async def _send_with_attachments(self, text: str, kind: SendKind, documents: Sequence[Document]) -> None:
        """Send a message with these documents and what it mentions; if that fails, return it to the input."""
        from ikigai.app.attachments import attachments

        to, services = self._active_agent.agent_loop, self._session.services
        self._active_agent.keep_while_reading(text)
        try:
            if to is None or services is None:
                raise self._active_agent.refusal()
            servers = self._session.services.tool_runtime.server_names if self._session.services else ()
            local = await asyncio.to_thread(attachments.read_mentions, own_words(text), None, servers)
            local = local._replace(parts=(*documents, *local.parts))
            self._can_stop = True
            if self._session.closing:  # nobody can be asked any more
                self.interrupt()
            settings = to.memory.settings
            attached = await attachments.attach(local, services, settings, self._view.ask, self._show_fetching)
            self.route(kind(text, attached.images, documents=attached.documents), to)
            for notice in attachments.notices(local, attached, services, to.memory.model):
                self._view.notice(notice)
        except asyncio.CancelledError:
            self._view.notice("Stopped. Nothing was sent.")
            behind = self._active_agent.queue.take_before_open()
            self._view.restore_input("\n".join((text, *behind)))
            raise
        except Exception as error:
            if not isinstance(error, IkigaiError):
                log.exception("mentions could not be attached")
                error = Bug()
            self._view.notice(str(error))
            self._view.restore_input(text)
        finally:
            self._can_stop = False
            self._active_agent.keep_while_reading("")

    def forget(self, incoming: inputs.Forget, line: str) -> None:
        """Show the user what these ids name, and send the filter that the user confirms.

        While the agent is busy the line waits, with everything entered behind it: the turn changes what "last 1" names.
        """
        agent_loop = self._active_agent.agent_loop
        if agent_loop is None:
            raise self._active_agent.refusal()
        if agent_loop.idle.is_set():
            self.run_first(self._forget(incoming, agent_loop))
        else:
            self._active_agent.queue.hold(line)
            self.run_first(self._until_idle(agent_loop))

    async def _until_idle(self, agent_loop: AgentLoop) -> None:
        self.waits_for_turn = True
        try:
            await agent_loop.idle.wait()
        finally:
            self.waits_for_turn = False

    async def _forget(self, incoming: inputs.Forget, agent_loop: AgentLoop) -> None:
        from ikigai.agent.context.forget import select_named

        self._can_stop = True
        try:
            chosen = await select_named(agent_loop.forget_context(), agent_loop.memory, incoming)
            if chosen:
                self.route(chosen, agent_loop)
            else:
                self._view.note("Nothing was forgotten.")
        except IkigaiError as error:
            self._view.notice(str(error))
        except asyncio.CancelledError:
            self._view.note("Nothing was forgotten.")
            raise
        finally:
            self._can_stop = False

    def _show_fetching(self, url: str) -> None:
        self._view.running(f"fetching {url}" if url else "")

    def interrupt(self) -> bool:
        """Stop attaching what waits for the user or the web; return False if nothing does."""
        if self.reading is None or not self._can_stop:
            return False
        self.reading.cancel()
        return True

    async def end_reading(self, seconds: float) -> None:
        """Wait until a message is sent whose attachments are being read; after `seconds` return it to the input."""
        if (reading := self.reading) is None:
            return
        self.interrupt()
        await asyncio.wait({reading}, timeout=seconds)
        reading.cancel()  # here, where its text is still saved as a draft
        await asyncio.wait({reading})

    def run_first(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work`; input waits until it has ended."""
        self.reading = asyncio.create_task(self._run_before_queue(work), name="first")
        return self.reading

    async def _run_before_queue(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        finally:
            self.reading = None
        held = self._active_agent.queue.take_before_open()
        if self._session.closing:  # they stay, as a draft
            self._view.restore_input("\n".join(held))
            return
        for each in held:
            self._submit(each)

    def typing(self, text: str) -> None:
        """Open a connection for the request of the message that is being typed, after the key has been shown."""
        services, memory = self._session.services, self._session.memory
        if services and memory and not self._active_agent.busy and not table.is_command(text):
            asyncio.get_running_loop().call_later(KEYS_FIRST_SECONDS, services.pool.preconnect, memory.model)

    def route(self, incoming: inputs.Input, to: AgentLoop | None = None) -> None:
        """Pass `incoming` to the agent on screen, or to the loop `to` if it is given."""
        services, agent_loop = self._session.services, to or self._active_agent.agent_loop
        assert services
        if agent_loop is None or not self._active_agent.is_open(agent_loop):
            raise self._active_agent.refusal()
        if isinstance(incoming, inputs.Change):
            from ikigai.app.run import setting_changes

            values, notice = setting_changes.accept_change(services, agent_loop.memory, incoming.values)
            incoming = inputs.Change(values)
            for each in filter(
                None, (notice, setting_changes.unseen_images_notice(services, agent_loop.memory, values))
            ):
                self._view.notice(each)
            if model := incoming.values.get("model"):  # another SDK, maybe: not when Enter is pressed
                self._session.track(asyncio.create_task(services.pool.preload(str(model)), name="preload"))
        agent_loop.put_input(incoming)
        self._active_agent.drafts.sent()

    async def shell(self, line: str) -> None:
        """Run the user's own command: after one ! its output goes into the conversation, after two it does not."""
        from ikigai.repl.input.user_command import MAX_OUTPUT_BYTES, run_user_command
        from ikigai.tools.shell.output_buffer import HeadTailBuffer

        assert self._session.services
        to = self._active_agent.agent_loop
        quiet = line.startswith("!!")
        command = line.lstrip("!").strip()
        if self._active_agent.agent_loop is None and not quiet:
            raise self._active_agent.refusal()
        self._view.running(line)
        buffer = HeadTailBuffer(MAX_OUTPUT_BYTES // 2, MAX_OUTPUT_BYTES // 2)

        def on_output(text: str) -> None:
            buffer.add(text.encode(errors="replace"))
            self._view.command_output(text)

        try:
            output = await run_user_command(self._session.services.tool_runtime, command, on_output)
        except asyncio.CancelledError:
            self._quote_output(command, f"{buffer.text()}\n[stopped]".lstrip(), quiet, to)
            raise
        finally:
            self._view.running("")
        self._quote_output(command, output, quiet, to)

    def _quote_output(self, command: str, output: str, quiet: bool, to: AgentLoop | None) -> None:
        """Quote the output of the user's own command in the conversation, or with `quiet` print it on the
        screen alone.
        """
        if quiet or to is None or not self._active_agent.is_open(to):
            self._view.print_text(f"$ {command}\n{output}")
            return
        assert self._session.services
        redacted = self._session.services.redaction.redactor().foreign(output)
        self.route(inputs.Quote(f"!{command}\n{redacted}", is_command_output=True), to)
        if to.memory.open:  # it is in a file by now
            self._view.print_text(f"!{command} has run. Its output is added to the conversation when the turn ends.")


def own_words(text: str) -> str:
    """Return the part of a message that is the user's: nothing that excerpts of earlier turns mention is attached."""
    from ikigai.core.search.recall_choice import HEADER

    return text.partition(HEADER)[0]


def _may_mention(text: str) -> bool:
    """Return True if words of `text` may name a file or a page; most messages have no @."""
    if "@" not in text:
        return False
    from ikigai.core.commands import mentions

    return mentions.may_mention(own_words(text))
