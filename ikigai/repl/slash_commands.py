"""The program's own commands: what they need of the world is asked, what they come to is shown or told to the agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from ikigai.config import Config
from ikigai.core.commands.parsers import Local
from ikigai.core.errors import Bug, IkigaiError, Opening, Refused
from ikigai.core.state import inputs
from ikigai.repl.input_router import Sitting

if TYPE_CHECKING:
    from ikigai.agent.loop import Runtime
    from ikigai.app.info_commands import Place
    from ikigai.app.services import World
    from ikigai.store.agents import Agent

log = logging.getLogger(__name__)


class Commanding(Sitting):
    """A sitting at which commands are carried out, each beside whatever else goes on."""

    def __init__(self, config: Config, prompt: str) -> None:
        super().__init__(config, prompt)
        self._running: asyncio.Task[None] | None = None  # the user's own command
        self._agents: list[str] = []
        self._dead: list[str] = []

    def _spawn(self, command: Local) -> None:
        self._keep(asyncio.create_task(self._local(command), name=f"/{command.name}"))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it, and say in words what goes wrong."""
        try:
            await work
        except asyncio.CancelledError:
            self.screen.notice("The command was stopped.")
        except IkigaiError as error:
            self.screen.notice(str(error))
        except Exception:
            log.exception("a command failed")
            self.screen.notice(str(Bug()))

    async def _local(self, command: Local) -> None:
        try:
            match command.name:
                case "exit":
                    self.leave()
                case "new" | "switch" | "fork" | "go" | "takeover":
                    await self._go(command)
                case "answer":
                    self._seat.answer(command.argument)
                case "rename" | "kill" | "revive":
                    await self._rearrange(command)
                case "history":
                    self.screen.browse()
                case "approve" | "tools" | "trust" | "pin" | "unpin":
                    await self._permit(command)
                case "recall" | "quote":
                    await self._recall(command)
                case "export":
                    self._export(command)
                case "cost" if _painted(command.argument):
                    self._paint(command)
                case "wait":
                    self._wait(command)
                case "copy":
                    await self._copy(command)
                case "send":
                    from ikigai.repl import switching as moving

                    self._tell(await moving.sent(self._world, self._seat, command.argument))
                case _:
                    from ikigai.app import info_commands as answers

                    found = await answers.answer(command, self._config, self._place())
                    if found.drawn:
                        self.screen.print_drawn(found.drawn)
                    elif found.marked:
                        self.screen.print_marked(found.marked)
                    else:
                        also = f"\n{self.screen.status_told()}" if command.name == "status" else ""
                        self.screen.print_text(found.text + also.rstrip())
        except IkigaiError as error:
            self.screen.notice(str(error))
        except Exception:
            log.exception("/%s failed", command.name)
            self.screen.notice(str(Bug()))

    async def _recall(self, command: Local) -> None:
        """Answer from what was ever said, or bring a piece of it back."""
        from ikigai.app import factories as making
        from ikigai.app import recall as recalling

        world, memory, to = self._world, self.memory, self._seat.runtime
        if world is None or memory is None:
            raise Opening()
        if command.name == "quote":
            self._tell(await recalling.quoted(world.database, command.argument), to)
            return
        if not memory.model:
            raise Refused("There is no model to ask.", "/model PROVIDER/NAME chooses one; /search needs none.")
        provider, price = world.pool.provider(memory.model), making.make_price(self._config)
        asked = (world.database, provider, memory.model, price, command.argument)
        answer, usage = await recalling.recalled(*asked)
        if to is None or not self._seat.holds(to):
            self.screen.print_text(answer)
            return
        for each in (*map(inputs.Used, usage), inputs.Ran(f"/recall {command.argument}", answer)):
            to.tell(each)

    def _export(self, command: Local) -> None:
        """Write the history to a file."""
        from ikigai.app import export as exporting

        if self._world is None or self._seat.agent is None:
            raise Opening()
        database, agent, line = self._world.database, self._seat.agent, f"/export {command.argument}"
        tell = partial(self.screen.progress, line)
        self._run(self._told(line, exporting.typed_export, database, agent, command.argument, tell))

    def _paint(self, command: Local) -> None:
        """Write a picture to a file; what paints it takes seconds to load."""

        async def told() -> str:
            from ikigai.app import info_commands as answers

            return (await answers.answer(command, self._config, self._place())).text

        self._run(self._told(f"/cost {command.argument}", told))

    async def _copy(self, command: Local) -> None:
        from ikigai.repl import copy_answer as copying

        if self.memory is None:
            raise Opening()
        found = copying.chosen(self.memory, command.argument)
        self.screen.print_text(f"{found.what}. {await self.screen.copied(found.text)}")

    def _wait(self, command: Local) -> None:
        """Wait for other agents, and say what came of them."""
        from ikigai.repl import wait_command as waiting

        if self._seat.agent is None or self._seat.crew is None:
            raise Opening()
        line = f"/wait {command.argument}".strip()
        self._run(self._told(line, waiting.waited, self._seat.crew, self._seat.agent.id, command.argument.split()))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this as the user's own command, of which there is one at a time: Esc stops it."""
        if self._running and not self._running.done():
            work.close()
            raise Refused("A command of yours is still running.", "Esc stops it; or wait for its end.")
        self._running = asyncio.create_task(self._guarded(work), name="own command")

    async def _told(self, line: str, work: Callable[..., Coroutine[Any, Any, str]], *arguments: Any) -> None:
        """Do it while the screen says so, and print what it came to."""
        self.screen.running(line)
        try:
            told = await work(*arguments)
        finally:
            self.screen.running("")
        self.screen.print_text(told)

    async def _permit(self, command: Local) -> None:
        """/approve, /tools, /trust, /pin and /unpin."""
        from ikigai.repl import permission_commands as permissions

        to = self._seat.runtime
        if self.memory is None or self._world is None:
            raise Opening()
        if command.name == "approve":
            found = await permissions.approve(command.argument, self.memory, self.screen.ask)
        elif command.name == "trust":
            found = permissions.trusted(command.argument, self._world.project)
        elif command.name in ("pin", "unpin"):
            from ikigai.repl import pin_commands as pinning

            found = await pinning.answered(command, self.memory, self.screen)
        else:
            found = permissions.tools(command.argument, self.memory)
        if isinstance(found, str):
            self.screen.print_text(found)
        else:
            self._tell(found, to)

    async def _shell(self, line: str) -> None:
        """The user's own command: with one ! its output goes into the conversation, with two it does not."""
        from ikigai.repl import permission_commands as permissions
        from ikigai.tools.shell.output_buffer import Kept

        assert self._world
        to = self._seat.runtime
        quiet = line.startswith("!!")
        typed = line.lstrip("!").strip()
        if self._seat.runtime is None and not quiet:
            raise self._seat.refusal()
        self.screen.running(line)
        written = Kept(permissions.LONGEST // 2, permissions.LONGEST // 2)

        def wrote(text: str) -> None:
            written.add(text.encode(errors="replace"))
            self.screen.progress(line, text)

        try:
            output = await permissions.ran(self._world.workshop, typed, wrote)
        except asyncio.CancelledError:
            self._ran(typed, f"{written.text()}\n[stopped]".lstrip(), quiet, to)
            raise
        finally:
            self.screen.running("")
        self._ran(typed, output, quiet, to)

    def _ran(self, typed: str, output: str, quiet: bool, to: Runtime | None) -> None:
        """Bring what the user's own command came to into the conversation, or, with `quiet`, on the screen alone."""
        if quiet or to is None or not self._seat.holds(to):
            self.screen.print_text(f"$ {typed}\n{output}")
            return
        assert self._world
        if to.memory.open:
            self.screen.print_text(f"!{typed} has run. Its output joins the conversation when the turn ends.")
        kept = self._world.redaction.redactor().foreign(output)
        self._tell(inputs.Quote(f"!{typed}\n{kept}", ran=True), to)

    def _move(self, command: Local) -> None:
        """Go to another agent. What is typed from now on is meant for that one."""
        if command.name == "switch" and not command.argument:
            raise Refused("Which agent?", f"There are: {', '.join(self._agents)}")
        self._opening = True
        self._spawn(command)

    async def _go(self, command: Local) -> None:
        from ikigai.repl import switching as moving

        assert self._world
        with self._moving():
            if command.name == "takeover":
                try:
                    await self._seat.take_over(self._world)
                finally:
                    self._seat.stay()
                return
            try:
                move = await moving.destination(self._world, self._seat, command)
                await self._seat.take(self._world, move.agent)
            except IkigaiError as error:
                self._seat.stay()
                if command.name != "go" or not isinstance(error, Refused):
                    raise
                self.screen.hint(str(error))
                return
            for told, tell in ((move.told, self.screen.print_text), (move.notice, self.screen.notice)):
                if told:
                    tell(told)
            if move.prompt:
                self._say(move.prompt)
        await self._name_agents()

    async def _rearrange(self, command: Local) -> None:
        """/rename, /kill and /revive."""
        from ikigai.app import agent_tree as kin
        from ikigai.repl import switching as moving

        world, seat = self._world, self._seat
        if world is None or seat.agent is None:
            raise Opening()
        if command.name == "rename":
            self.screen.print_text(await moving.rename(world, seat, command.argument))
        elif command.name == "revive":
            agent = await world.database.agents.find(command.argument)
            self.screen.print_text(await kin.revive(world.database, agent))
        else:
            await self._kill(world, await world.database.agents.find(command.argument or seat.agent.id))
        await self._name_agents()

    async def _kill(self, world: World, agent: Agent) -> None:
        from ikigai.app import agent_tree as kin
        from ikigai.repl import switching as moving

        dying = await kin.doomed(world.database, agent)
        if (await self.screen.ask(moving.sure(dying))).key != "y":
            self.screen.print_text("Nobody was killed.")
            return
        dying = await kin.doomed(world.database, agent)  # there may be more by now
        if self._seat.agent and self._seat.agent.id in {link.id for link in dying}:
            self._opening = True
            with self._moving():
                await self._seat.take(world, await moving.refuge(world, dying))
        for kept in await kin.kill(world.database, dying, self._seat.crew):
            self.screen.notice(kept)
        self.screen.print_text(kin.killed(dying))

    async def _name_agents(self) -> None:
        assert self._world
        known = await self._world.database.agents.all(dead=True)
        self._agents = [agent.name for agent in known if not agent.killed_at]
        self._dead = [agent.name for agent in known if agent.killed_at]

    def _place(self) -> Place | None:
        """What commands are asked about; None while no agent is open."""
        from ikigai.app.info_commands import Place

        memory = self.memory
        if memory is None or self._seat.agent is None or self._world is None:
            return None
        state = "read-only" if self._seat.runtime is None else memory.status.value
        return Place(self._world, self._seat.agent, memory, state, self.screen.usage, self._seat.crew)


def _painted(argument: str) -> bool:
    """Whether /cost is to write a file. Raises ConfigError."""
    if not argument:
        return False
    from ikigai.app.plots import command as pictures

    return pictures.typed(argument).file is not None
