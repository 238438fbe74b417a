"""Judges the logs of a life full of agent tools: finds wrong replies, and answers that were lost or came twice.

Calls are judged one behind the other, in the order in which the model made them: each has to find what those before it
did. A worker owes an answer to each piece of work, and what a wait returns is all answers to what was given before it,
unless they have come already.
"""

import json
from collections import Counter
from typing import Any, NamedTuple

from ikigai.core.events.events import MailSent, MailTaken, StoredEvent, ToolStarted, UserMessage
from ikigai.core.events.messages import ToolCall, ToolResult

LONG = 60
"""Seconds that end no wait of such a life."""


class Asked(NamedTuple):
    """Work for a worker: the `place` among all calls of that which gave it, and the mail that it was, 0 for a fork.

    It is `sure` unless the program died before the call had a result.
    """

    place: int
    mail: int
    sure: bool


class Called(NamedTuple):
    """A call of the boss: the ids of its event and of the first call of its `reply`, and its `place` among all calls.

    `done` is the event of its result; `taken` are the mails that this brought, `sent` is the mail that it sent.
    """

    id: int
    reply: int
    place: int
    name: str
    arguments: dict[str, Any]
    started: bool
    done: StoredEvent | None
    taken: tuple[int, ...]
    sent: int

    @property
    def said(self) -> str:
        return self.done.event.content if self.done and isinstance(self.done.event, ToolResult) else ""

    @property
    def refused(self) -> bool:
        return bool(self.done and isinstance(self.done.event, ToolResult) and self.done.event.is_error)


class Verdict:
    """`logs` has the logs of the boss and its workers by name, read when all are idle; `boss` is its id, `dead` the
    workers that were killed.
    """

    def __init__(self, logs: dict[str, list[StoredEvent]], boss: str, dead: set[str]) -> None:
        self.wrong = dict[int, str]()  # replies, and what is wrong with them
        self.lost, self.doubled = list[str](), list[str]()
        self._logs, self._dead, self._id = logs, dead, boss
        self.calls = _calls(logs["boss"])
        self.replies = len({call.reply for call in self.calls})
        self._texts = {
            row.id: row.event.text for log in logs.values() for row in log if isinstance(row.event, MailSent)
        }
        self._came = {row.event.of: row.id for row in logs["boss"] if isinstance(row.event, MailTaken)}
        self._where = {of: call.place for call in self.calls for of in call.taken}
        self.answers = len(self._came)
        self._answered = {worker: self._answers_of(worker) for worker in logs if worker != "boss"}
        self._asked, self._living, self._killed = dict[str, list[Asked]](), set[str](), set[str]()
        for call in self.calls:
            if complaint := self._complaint(call):
                self.wrong.setdefault(call.reply, f"{call.name} {call.arguments}: {complaint}")
        self._look_for_lost()

    def _answers_of(self, worker: str) -> dict[int, int]:
        """The mail to the boss that answers each message that the worker took from it, 0 being its prompt."""
        found, turn, rows = dict[int, int](), list[int](), self._logs[worker]
        for row, following in zip(rows, [*rows[1:], None], strict=True):
            match row.event:
                case UserMessage(sender=sender):
                    by_mail = following and isinstance(following.event, MailTaken)
                    turn = [0] if sender == "boss" and not by_mail else []
                case MailTaken(of):
                    turn.append(of)
                case MailSent(to, ending=ending) if ending and to == self._id:
                    self.doubled += [f"{worker} has answered {of} twice" for of in turn if of in found]
                    found.update(dict.fromkeys(turn, row.id))
                case _:
                    pass
        return found

    def _complaint(self, call: Called) -> str:
        """Return the defect of the call, "" for none; remember its effect."""
        missing = [of for of in call.taken if self._texts[of] not in call.said]
        if missing:
            return f"does not say what came: {missing}"
        match call.name:
            case "fork":
                return self._forked(call, call.arguments["name"])
            case "send":
                name = call.arguments["agent"]
                if call.sent and name in self._asked:
                    self._asked[name].append(Asked(call.place, call.sent, True))
                return _fits(call, name in self._living, f"Sent to {name}.")
            case "kill":
                name = call.arguments["agent"]
                complaint = _fits(call, name in self._living, f"Killed: {name}.")
                if name in self._living and (call.done or (call.started and name in self._dead)):
                    self._living.discard(name)
                    self._killed.add(name)
                return complaint
            case "wait":
                names = call.arguments.get("agents", ())
                known = self._living.union(self._killed).issuperset(names)
                return _fits(call, known, "") or (self._waited(call, names) if known and call.done else "")
            case _:
                listed = {line.partition(":")[0].strip() for line in call.said.splitlines()}
                return "" if not call.done or listed >= self._living else f"lists {listed}"

    def _forked(self, call: Called, name: str) -> str:
        known = name in self._living | self._killed
        if not known and self._made(call, name):
            self._living.add(name)
            self._asked[name] = [Asked(call.place, 0, bool(call.done))]
        return _fits(call, not known, f"Agent {name} is running.")

    def _made(self, call: Called, name: str) -> bool:
        """Return True if the call made the worker; if its program was killed, the worker's first event decides."""
        if call.done:
            return not call.refused
        first = self._logs[name][0].id if name in self._logs else 0
        tried = [each for each in self.calls if each.name == "fork" and each.arguments["name"] == name]
        reply = max((each.reply for each in tried if each.id < first), default=0)
        return call.id == next((each.id for each in tried if each.reply == reply and not each.done), 0)

    def _waited(self, call: Called, names: list[str]) -> str:
        """Return the defect of the result of the wait."""
        for name in names or self._asked:
            for each in self._asked.get(name, ()):
                answer = self._answered[name].get(each.mail)
                if answer is None or name in self._killed or self._where.get(answer) == call.place:
                    continue
                if answer in self._came and self._came[answer] < call.id:
                    continue
                if self._where.get(answer, call.place) < call.place:
                    continue
                if not (not names and call.taken) and not self._ends_before(name, call, each):
                    return f"does not hold the answer {answer} to {each}: {call.said}"
        later = [each for each in self.calls[call.place :] if each.sent]
        early = {self._answered[name].get(each.sent) for each in later for name in self._answered}
        return f"holds an answer to a later call: {call.said}" if early.intersection(call.taken) else ""

    def _ends_before(self, name: str, call: Called, asked: Asked) -> bool:
        """Return True if the wait had a reason to end before the answer: its timeout, or a mutual wait of all."""
        if call.arguments["seconds"] != LONG:
            return True
        if "No running agent could send more" not in call.said or not call.done:
            return False
        taken = [row.id for row in self._logs[name] if isinstance(row.event, MailTaken) and row.event.of == asked.mail]
        return asked.mail == 0 or any(id < call.done.id for id in taken)

    def _look_for_lost(self) -> None:
        """Each piece of work has an answer, unless its worker was killed first; and each answer has come."""
        for name, given in self._asked.items():
            for each in given:
                answer = self._answered[name].get(each.mail)
                if answer is None and each.sure and name not in self._dead:
                    self.lost.append(f"{name} never answered {each}")
                elif answer is not None and answer not in self._came:
                    self.lost.append(f"the answer {answer} of {name} never came")


def _calls(rows: list[StoredEvent]) -> list[Called]:
    """The calls of the boss in their order, with what came of them."""
    started = {row.event.call_id for row in rows if isinstance(row.event, ToolStarted)}
    done, taken, sent = dict[str, StoredEvent](), dict[str, tuple[int, ...]](), Counter[str]()
    beside = list[StoredEvent]()  # what is stored with a result stands right before it
    for row in rows:
        match row.event:
            case MailTaken() | MailSent(ending=""):
                beside.append(row)
                continue
            case ToolResult(id):
                done[id] = row
                taken[id] = tuple(each.event.of for each in beside if isinstance(each.event, MailTaken))
                sent[id] = next((each.id for each in beside if isinstance(each.event, MailSent)), 0)
            case _:
                pass
        beside = []
    calls, reply = list[Called](), 0
    for before, row in zip([None, *rows], rows, strict=False):
        if isinstance(call := row.event, ToolCall):
            if not (before and isinstance(before.event, ToolCall)):
                reply = row.id
            what = call.name, json.loads(call.arguments), call.id in started
            came = done.get(call.id), taken.get(call.id, ()), sent[call.id]
            calls.append(Called(row.id, reply, len(calls), *what, *came))
    return calls


def _fits(call: Called, fits: bool, says: str) -> str:
    """Return the defect of the refusal of the call, or of its result if it was not refused."""
    if not call.done:
        return ""
    if call.refused == fits:
        return f"{'refused' if fits else 'not refused'}: {call.said}"
    return "" if says in call.said or not fits else call.said
