"""/recall and /quote over a real database and a real HTTP model: what is forgotten is found, and stays forgotten."""

import argparse

import pytest

from ikigai.agent.request.usage_meter import no_price
from ikigai.app.history import recall_commands
from ikigai.app.history.recall_commands import (
    answer_from_log,
    find_excerpts,
    format_excerpts,
    print_recall,
    quote_event,
)
from ikigai.app.json_records.history_records import RecallRecord
from ikigai.core.context.forget_selection import EventRange, select_events
from ikigai.core.errors import ConfigError, IkigaiError, Rejected
from ikigai.core.state.decisions.decisions import work
from ikigai.core.state.inputs import Filter, NoteClosed, Submitted
from ikigai.core.state.memory import next_request
from ikigai.providers.retry import RetryingProvider
from ikigai.store.database import Database
from ikigai.store.search.turn_recall import Recalled
from tests.app.house import House, call
from tests.store.talk import Talk
from tests.support.wire_server import WireServer, completion, failure


async def forgetful(database: Database) -> Talk:
    """A talk that has forgotten what it said of the walrus."""
    talk = await Talk.open(database)
    await talk.turn("Which colour had the walrus?", "The walrus was turquoise.")
    await talk.turn("And now?", "Now it is late.")
    found = await talk.log.load(select_events(talk.run, talk.agent.id, (EventRange(newest_turns=2),)))
    first = found.turns[0]
    await talk.happen(Filter(((first.turn.first, first.turn.end),), (), 2))
    assert "walrus" not in repr(next_request(talk.memory))
    return talk


async def test_recall_answers_from_forgotten_events_which_stay_forgotten(
    database: Database, wire_model: WireServer, wire_provider: RetryingProvider
):
    talk = await forgetful(database)
    wire_model.script[:] = [completion("Turquoise [#3].", usage={"prompt_tokens": 70, "completion_tokens": 5})]
    before = talk.memory
    answer, usage = await answer_from_log(database, wire_provider, "wire/x", no_price, "What colour was the walrus?")
    assert answer.startswith("Turquoise [#3].") and "/quote ID" in answer
    assert [(row.purpose, row.usage.input) for row in usage] == [("recall", 70)]
    sent = wire_model.requests[0].json["messages"]
    assert "The walrus was turquoise." in sent[-1]["content"] and "data" in sent[0]["content"]
    assert talk.memory is before and "walrus" not in repr(next_request(talk.memory))
    await talk.log.close()


async def test_nothing_found_and_a_model_that_fails_are_told(
    database: Database, wire_model: WireServer, wire_provider: RetryingProvider
):
    talk = await forgetful(database)
    with pytest.raises(Rejected, match="No message contains these words"):
        await answer_from_log(database, wire_provider, "wire/x", no_price, "zeppelin")
    assert not wire_model.requests, "nobody is asked for nothing"
    wire_model.script[:] = [failure(401, "bad key")]
    with pytest.raises(IkigaiError, match="key"):
        await answer_from_log(database, wire_provider, "wire/x", no_price, "walrus")
    await talk.log.close()


async def test_quote_comes_into_the_conversation_as_a_message_that_asks_nothing(database: Database):
    talk = await forgetful(database)
    hits = (await database.search("turquoise")).hits
    quote = await quote_event(database, f"#{hits[0].id}")
    assert f"event {hits[0].id} (assistant)" in quote.text and quote.text.endswith("\n> The walrus was turquoise.")
    await talk.happen(quote)
    (job,) = work(talk.memory)
    await talk.happen(NoteClosed(job))  # pyright: ignore[reportArgumentType]
    assert talk.memory.open is None and "> The walrus was turquoise." in repr(next_request(talk.memory))
    await talk.log.close()


@pytest.mark.parametrize("argument", ["", "x", "#", "999999", "-1"])
async def test_quote_rejects_an_unusable_argument(database: Database, argument: str):
    talk = await Talk.open(database)
    with pytest.raises(Rejected) as refused:
        await quote_event(database, argument)
    assert refused.value.what and refused.value.remedy
    await talk.log.close()


async def test_tool_of_a_model_brings_the_excerpts_that_the_command_answers_from(house: House, database: Database):
    talk = await forgetful(database)
    await talk.log.close()
    asking = await house.member(
        "asking", [call("recall", question="walrus")], [call("recall", question="zeppelin")], "Turquoise."
    )
    asking.agent_loop.put_input(Submitted("Which colour?"))
    await house.rested()
    found, nothing = await house.results("asking")
    turns = (await find_excerpts(database, "walrus")).turns
    assert found == format_excerpts([turn for turn in turns if turn.agent == talk.agent.name])
    assert "[#" in found and "The walrus was turquoise." in found
    assert nothing == "No message contains these words."


def asked(*question: str, agent: str | None = None, json: bool = False, limit: int = 20) -> argparse.Namespace:
    return argparse.Namespace(question=list(question), agent=agent, json=json, limit=limit)


async def test_recalled_turns_are_printed_with_their_ids_and_scores(database: Database):
    talk = await forgetful(database)
    printed = await print_recall(database, asked("colour", "of", "the", "walrus"))
    assert isinstance(printed, str)
    first, user, reply = printed.splitlines()[:3]
    assert first.startswith("#") and talk.agent.name in first and "score" in first
    assert user == "  user: Which colour had the walrus?" and reply == "  assistant: The walrus was turquoise."
    told = await print_recall(database, asked("colour of the walrus", json=True, limit=1))
    assert isinstance(told, RecallRecord) and told.behind == 0
    (turn,) = told.turns
    assert turn.first == turn.messages[0].id and turn.id in {said.id for said in turn.messages}
    assert max(said.score for said in turn.messages) == turn.score > 0
    assert await print_recall(database, asked("zeppelin")) == "No message contains these words."
    with pytest.raises(ConfigError, match="Add a question"):
        await print_recall(database, asked("", " \t"))
    await talk.log.close()


def test_recall_says_what_it_lacks():
    assert recall_commands._lines(Recalled()) == ["No message contains these words."]
    assert recall_commands._lines(Recalled(behind=1, notice="Words alone."))[1:] == [
        "1 event is not in the index yet and may contain more; ask again later.", "Words alone.",
    ]  # fmt: skip
    assert recall_commands._lines(Recalled(behind=1_234))[1].startswith("1,234 events are not in the index yet")


async def test_recalled_turns_are_printed_with_600_characters_each(database: Database):
    talk = await Talk.open(database)
    await talk.turn("a walrus " + "mud " * 1_000, "Hm.")
    told = await print_recall(database, asked("walrus", json=True, limit=3))
    assert isinstance(told, RecallRecord)
    assert 400 < sum(len(said.excerpt) for turn in told.turns for said in turn.messages) < 650
    await talk.log.close()


@pytest.mark.parametrize("mud", ["mud ", "泥。"])
async def test_recalled_turns_show_what_matches_in_a_line_and_name_the_way_to_the_rest(database: Database, mud: str):
    talk = await Talk.open(database)
    await talk.turn(f"{mud * 700}\n\na walrus\n\n{mud * 700}", "Hm.")
    await talk.turn("The small walrus.", "Hm.")
    printed = str(await print_recall(database, asked("walrus", limit=1)))
    assert printed.splitlines()[1:] == ["  user: The small walrus.", "  assistant: Hm."]
    printed = str(await print_recall(database, asked("walrus", limit=2)))
    *_, excerpt, reply, rest = printed.splitlines()
    assert "a walrus" in excerpt and excerpt.startswith("  user: … ") and excerpt.endswith(" …") and len(excerpt) < 650
    assert reply == "  assistant: Hm." and rest == "To see all of a message: ikigai history show ID"
    await talk.log.close()


async def test_recall_of_a_fork_reads_what_it_inherits_alone(database: Database):
    parent = await Talk.open(database)
    await parent.turn("walrus before the fork", "yes")
    place = parent.memory.window.turns[-1].end
    child = await Talk.open(database, await database.agents.create("child", parent=parent.agent.id, forked_at=place))
    await parent.turn("walrus after the fork", "no")
    await child.turn("walrus of the child", "no")
    told = await print_recall(database, asked("walrus", agent="child", json=True))
    assert isinstance(told, RecallRecord)
    said = {turn.messages[0].excerpt for turn in told.turns}
    assert said == {"walrus before the fork", "walrus of the child"}
    await parent.log.close()
    await child.log.close()
