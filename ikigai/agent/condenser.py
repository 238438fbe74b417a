"""Condensing in the background: a model summarises the oldest turns while the user goes on, and nothing waits for it.

A summary is taken only between turns, only while memory begins as it did, and only if it is shorter by a quarter than
what it stands for. In every other case the window does as it would have done without.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ikigai.agent.forget import World
from ikigai.agent.summary_writer import AGAIN, UNCHANGED, Made, Writing
from ikigai.core.condense.plan import WIDE, Covering, covering, decided, everything, grown, widened
from ikigai.core.condense.threshold import Options, Verdict
from ikigai.core.errors import IkigaiError, Refused
from ikigai.core.events import Cleared, Event, Summarised, TurnEnded, Undone, UserMessage
from ikigai.core.state.inputs import Condensed
from ikigai.core.state.memory import Memory, Status

WITHIN = 180.0
"""Seconds that a summary may take in all, its parts and second tries included."""
log = logging.getLogger(__name__)


class Condenser:
    """Has summaries made for one agent, one at a time, that of a cleared epoch beside it.

    `notice` takes sentences for the user; what comes of it goes to the world's `tell`, as inputs. `options` are those
    that hold for a memory.
    """

    def __init__(
        self,
        world: World,
        notice: Callable[[str], None],
        options: Callable[[Memory], Options],
    ) -> None:
        self._world, self._notice, self._options = world, notice, options
        self._task: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._by_hand = False
        self.made = False  # and waits for its turn to end
        self._failed: Memory | None = None  # as it was when a summary was no good, or was taken back
        self._hinted: Memory | None = None

    @property
    def running(self) -> bool:
        """Whether the context is being condensed."""
        return self._task is not None and not self._task.done()

    @property
    def asked_for(self) -> asyncio.Task[None] | None:
        """What the user has asked for and is not done; print mode waits for it."""
        return self._task if self._by_hand and self.running else None

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        return tuple(task for task in (self._task, self._closing) if task and not task.done())

    def stop(self) -> bool:
        """Stop condensing; whether there was anything to stop."""
        if not self.running or not self._task:
            return False
        self._task.cancel()
        self._notice("Condensing was stopped; nothing was changed.")
        return True

    def asked(self, memory: Memory, focus: str) -> None:
        """The user wants it now; while it goes on already, that means to stop it."""
        if self.stop():
            self._failed = memory
            return
        self._by_hand = True
        self._task = asyncio.create_task(self._condense(memory, focus, automatic=False), name="condense")

    def refused(self, memory: Memory) -> None:
        """What was made is not stored: memory begins otherwise now."""
        self.made, self._failed = False, memory

    def recorded(self, facts: tuple[Event, ...], before: Memory, now: Memory) -> None:
        """These facts were stored: what follows from a turn's end, from a clear, and from an undo of a summary."""
        for fact in facts:
            match fact:
                case UserMessage() if self.running and self._task and self._is_local(now):
                    self._task.cancel()  # it does one thing at a time, and no request waits
                    if self._by_hand:
                        self._notice("Condensing was stopped: a local model does one thing at a time.")
                case TurnEnded() if now.status is Status.IDLE:
                    self._look(now)
                case Cleared():
                    if self._task and self.running:
                        self._task.cancel()
                    if self._options(before).on_clear and (of := everything(before)) and now.cleared:
                        summing = self._summarise_cleared(before, of, now.cleared)
                        self._closing = asyncio.create_task(summing, name="summarise what was cleared")
                case Summarised(closed=0):
                    self.made = False
                case Undone(what="summary"):
                    self._failed = now
                case _:
                    pass

    def _is_local(self, memory: Memory) -> bool:
        models = (memory.model, self._options(memory).model or memory.model)
        return all(model.startswith("local/") for model in models)

    def _look(self, memory: Memory) -> None:
        """A turn has ended: begin by oneself where the context is that full, or say that it is."""
        options = self._options(memory)
        if options.mode == "off" or self.running or self.made or (self._failed and not grown(self._failed, memory)):
            return
        found = decided(memory, Options("auto", options.at_percent, options.to_percent))
        if found.verdict is not Verdict.CONDENSE:
            return
        if options.mode == "auto":
            self._by_hand, self._failed = False, None
            self._task = asyncio.create_task(self._condense(memory, "", automatic=True), name="condense")
        elif self._hinted is None or grown(self._hinted, memory):
            self._hinted = memory
            self._notice(f"The context is {found.threshold} % full. /condense has its oldest turns summarised.")

    async def _condense(self, memory: Memory, focus: str, automatic: bool) -> None:
        try:
            await self._condensed(memory, focus, automatic)
        except IkigaiError as error:
            self._failed = memory
            self._notice(str(error))
        except Exception:
            self._failed = memory
            log.exception("condensing failed")
            self._notice("Condensing failed inside ikigai; the log file has the details. Nothing was changed.")

    async def _condensed(self, memory: Memory, focus: str, automatic: bool) -> None:
        """Raises Refused with the reason why nothing comes of it."""
        options, wide = self._options(memory), memory
        if memory.window.older.turns:  # what has left the window belongs to the oldest, too
            wide = await self._world.load(widened(memory.run, memory.agent, WIDE * memory.ceiling))
        of = covering(memory, wide, options, by_hand=not automatic)
        if of is None and automatic:
            self._failed = memory  # nobody has asked, and the window does as without
            return
        if of is None:
            raise Refused("There is nothing to condense: the newest two turns always stay.", "Go on talking.")
        if not automatic:
            turns = f"{len(of.turns):,} turn{'s' * (len(of.turns) != 1)}"
            self._notice(f"Condensing {turns} in the background; /condense again stops it.")
        summary = await self._summary(memory, of, focus, options)
        covers = tuple((turn.id, turn.end) for turn in of.turns)
        earlier = (of.earlier.id,) if of.earlier else ()
        made = Summarised(
            summary.text, of.upto, covers, earlier, of.count, of.unseen, focus, automatic, summary.model, summary.cost
        )
        self.made = True
        self._world.tell(Condensed(made, of.begins))

    async def _summarise_cleared(self, memory: Memory, of: Covering, clear: int) -> None:
        try:
            summary = await self._summary(memory, of, "", self._options(memory))
        except IkigaiError as error:
            self._notice(f"What was cleared was not summarised. {error}")
            return
        except Exception:
            log.exception("what was cleared was not summarised")
            return
        covers = tuple((turn.id, turn.end) for turn in of.turns)
        told = Summarised(
            summary.text, 0, covers, (), of.count, of.unseen, "", True, summary.model, summary.cost, closed=clear
        )
        self._world.tell(Condensed(told))

    async def _summary(self, memory: Memory, of: Covering, focus: str, options: Options) -> Made:
        """The text, the model and the cost. Raises Refused where none comes that will do."""
        writing = Writing(self._world, memory, of, focus, options)
        try:
            async with asyncio.timeout(WITHIN):
                return await writing.written()
        except TimeoutError:
            raise Refused(
                f"Condensing took longer than {WITHIN:g} s and was given up.", f"{UNCHANGED} {AGAIN}"
            ) from None
