"""The ledger is what servers said: turns of every kind with random usage in every vendor's format, and the sums that
`ikigai usage` prints of them.
"""

import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from ikigai import config as configuration
from ikigai.app.agents.agent_manager import OpenAgent
from ikigai.core.events.messages import Usage
from ikigai.core.request.reply import TextDelta
from ikigai.core.state.inputs import Change, Interrupted, Submitted
from ikigai.core.vendors import sellers
from ikigai.core.views.usage_totals import UsageTotals
from ikigai.store.database import Database
from tests.app.house import House, until
from tests.app.vendor_ledger import SPARE, TEXT, UNKNOWN_CALL, VENDORS, Reply, Vendor
from tests.e2e.account import Account
from tests.support.vendor_proxy import VendorProxy, host_of
from tests.support.wire_server import Answer, Received, failure

CONFIG = """
model = "mine/m"
fallback = ["spare/m"]
[providers.mine]
base_url = "https://mine.example/v1"
[providers.spare]
base_url = "https://spare.example/v1"
"""
PRICES = "".join(
    f'[models."{name}/m"]\ninput_price = 1.5\noutput_price = 7.25\ncached_price = 0.125\nwritten_price = 1.875\n'
    for name in ("mine", "spare")
)
TURNS = {
    "a reply": ("whole",),
    "calls": ("call", "call", "whole"),
    "a retry": ("busy", "whole"),
    "a retry after a cut before the first word": ("lost", "whole"),
    "another model": ("busy", "busy", "whole"),
    "a cut in the reply": ("cut",),
    "an interruption": ("hang",),
    "a refusal": ("refused",),
}
"""The outcomes of the requests of each kind of turn."""


class Bookkeeper:
    """Answers requests to all vendors, and adds up what it said by the model. It states a `share` of the figures."""

    def __init__(self, draw: Random) -> None:
        self.draw, self.share = draw, 1.0
        self.outcomes: list[str] = []  # of the next requests
        self.told: dict[str, UsageTotals] = defaultdict(UsageTotals)
        self._vendors = {vendor.url: vendor for vendor in (SPARE, *VENDORS)}
        self._failed = ""  # the model of the request before, if that is sent again

    def answer(self, received: Received) -> Answer:
        vendor = self._vendors.get(host_of(received) + received.path.partition("?")[0])
        if vendor is None:
            return failure(404, "Nothing is here.")  # the count of a request, say
        outcome = self.outcomes.pop(0)
        row = UsageTotals(requests=1, retried=int(self._failed == vendor.model))
        self._failed = vendor.model if outcome in ("busy", "lost") else ""
        if outcome in ("busy", "refused"):
            self.told[vendor.model] += replace(row, failed=1)
            return failure(503, "busy", retry_after="0.01") if outcome == "busy" else failure(401, "no")
        reply = self._reply(vendor, outcome)
        usage = reply.usage if reply.ends else reply.early or Usage()
        is_counted = usage != Usage()
        is_free = outcome == "lost" and vendor.book == "openai"  # its server says that it failed
        self.told[vendor.model] += replace(
            row,
            failed=int(outcome in ("lost", "cut")),
            interrupted=int(outcome == "hang"),
            **{name: getattr(usage, name) for name in ("input", "cached", "written", "output", "thinking", "searches")},
            cost=vendor.cost(usage) if is_counted else Decimal(0),
            unpriced=int(not is_counted and not is_free),
            at_least=int(not reply.ends and is_counted),
        )
        return Answer(vendor.stream(reply), end="hang" if outcome == "hang" else "clean")

    def _reply(self, vendor: Vendor, outcome: str) -> Reply:
        """Return a reply with random usage; part of it may already be stated at the beginning of the stream."""
        usage = vendor.draw(self.draw, self.share)
        begun = replace(usage, output=1, thinking=0, cost=None, searches=0)
        says = {"lost": "", "call": UNKNOWN_CALL["name"]}.get(outcome, TEXT)
        ends = outcome in ("whole", "call")
        early = begun if self.draw.random() < self.share else None
        if vendor.book == "openai":  # its usage stands in the last event alone
            early = replace(early, cached=0, written=0) if early and not says else None
        return Reply(usage, early, says, ends)


def has_text(member: OpenAgent) -> bool:
    reply = member.view.live_state.reply
    return reply is not None and any(isinstance(delta, TextDelta) for delta in reply.deltas)


async def take_turn(house: House, member: OpenAgent, books: Bookkeeper, vendor: Vendor, kind: str) -> None:
    books.outcomes = list(TURNS[kind])
    member.agent_loop.put_input(Change({"model": vendor.model}))
    member.agent_loop.put_input(Submitted(kind))
    if "hang" in TURNS[kind]:
        await until(lambda: has_text(member))
        member.agent_loop.put_input(Interrupted())
    await until(lambda: not books.outcomes)
    await house.rested(member)


@pytest.mark.parametrize("turns", [24, pytest.param(300, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
async def test_usage_is_the_sum_of_what_servers_said(
    dsn: str, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int
):
    draw = Random(turns)
    books = Bookkeeper(draw)
    first = [(vendor, "a reply") for vendor in VENDORS] + list(zip(VENDORS, TURNS, strict=False))
    random = [(draw.choice(VENDORS), draw.choice([*TURNS])) for _ in range(turns - len(first))]
    keys = {seller.key_variables[0]: "sk-of-a-test-0123456789" for seller in sellers().values() if seller.key_variables}
    for name, key in keys.items():
        monkeypatch.setenv(name, key)
    (tmp_path / "config.toml").write_text(CONFIG + PRICES)
    async with VendorProxy(tmp_path, [vendor.url.partition("/")[0] for vendor in (SPARE, *VENDORS)]) as proxy:
        proxy.answer = books.answer
        proxy.use(monkeypatch)
        house = House(database, tmp_path, configuration.load(tmp_path / "config.toml", keys, {}))
        member = await house.open((await house.world.create()).name)
        try:
            for vendor in VENDORS:
                await house.world.pool.preload(vendor.model)
            for number, (vendor, kind) in enumerate(first + random):
                books.share = 1.0 if number < len(first) else 0.6
                await take_turn(house, member, books, vendor, kind)
        finally:
            await house.manager.close()
            await house.world.tool_runtime.close()
            await house.world.pool.close()
    printed = Account(tmp_path, dsn).run("usage", "--json", "--by", "model")
    record = json.loads(printed.stdout, parse_float=Decimal)
    assert {row["model"] for row in record["rows"]} == set(books.told)
    for row in record["rows"]:
        compare(row, books.told[row["model"]])
    compare(record["total"], sum(books.told.values(), UsageTotals()))


def compare(row: dict[str, Any], told: UsageTotals) -> None:
    """Check a row to the token and to the millionth of a dollar; if turns left the window is not a server's word."""
    for name in UsageTotals.__struct_fields__:
        if name not in ("cost", "prunes", "pruned"):
            assert row[name] == getattr(told, name), (row, name, told)
    if row["cost"] is None:
        assert told.known_cost is None
    else:
        assert round(row["cost"] - told.cost, 6) == 0, (row, told)
