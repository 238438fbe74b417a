"""A question of an agent's is known to those that follow it, whatever asks and whatever else is under way."""

import asyncio

from ikigai.app.agents.agent_manager import OpenAgent
from ikigai.core.events.events import AssistantMessage
from ikigai.core.state.inputs import Change, Plan, Submitted
from ikigai.core.state.loading import load_memory
from ikigai.core.views.questions import QuestionAnswer, yes_or_no
from tests.app.house import House, call, until


async def is_asked(house: House, member: OpenAgent, expected: bool) -> None:
    """Wait until a follower that comes now knows that."""
    follower = house.database.follow(member.agent, lambda: load_memory(house.world.run, member.agent.id))

    async def knows() -> bool:
        holder = (await follower.begin())[1]
        return holder is not None and holder.is_waiting is expected

    try:
        await until(knows)
    finally:
        await follower.close()


async def test_follower_knows_of_a_question_until_it_is_answered(house: House) -> None:
    member = await house.member("boss")
    await is_asked(house, member, False)
    asking = [asyncio.create_task(member.view.ask(yes_or_no(title, ()))) for title in ("One?", "Two?")]
    await is_asked(house, member, True)
    member.view.questions[0].answered.set_result(QuestionAnswer("y"))
    await asking[0]
    await is_asked(house, member, True)
    member.view.questions[0].answered.set_result(QuestionAnswer("y"))
    await asking[1]
    await is_asked(house, member, False)


async def test_follower_knows_of_a_question_beside_a_running_call(house: House) -> None:
    read = [call("wait", seconds=30), call("write_file", path="/tmp/never", content="x")]
    slow = house.script("slow", [{"do": "hang"}])
    member = await house.member("boss", [call("fork", prompt="?", name="slow", model=slow)], read, "Done.")
    member.agent_loop.put_input(Submitted("Do it."))
    await until(
        lambda: bool(
            member.view.questions and (opened := member.agent_loop.memory.open) and opened.started - opened.answered
        )
    )
    await is_asked(house, member, True)


async def test_follower_knows_of_the_question_what_to_forget(house: House) -> None:
    preview = {"mode": "forget", "criteria": "cats", "action": "preview"}
    member = await house.member("boss", "Cats purr.")
    member.agent_loop.put_input(Submitted("Tell me of cats."))
    await house.rested()
    (said,) = [row.id for row in await house.history("boss") if isinstance(row.event, AssistantMessage)]
    model = house.script("planner", [call("filter_context", **preview)], f'{{"ids": [{said}]}}', "Done.")
    member.agent_loop.put_input(Change({"model": model}))
    member.agent_loop.put_input(Plan("forget", "cats"))
    await until(lambda: bool(member.view.questions) or not house.manager.is_running(member.agent.id))
    assert member.view.questions, await house.results("boss")
    await is_asked(house, member, True)


async def test_question_that_stands_is_told_again_on_another_connection_and_ends_with_the_log(house: House) -> None:
    member = await house.member("boss")
    asking = asyncio.create_task(member.view.ask(yes_or_no("One?", ())))
    await is_asked(house, member, True)
    async with member.log._session.use() as cursor:
        await cursor.connection.close()
    member.agent_loop.put_input(Change({"level": ""}))
    await is_asked(house, member, True)
    await member.log.close()
    again = await house.database.open_agent(member.agent)
    await is_asked(house, member, False)
    await again.close()
    asking.cancel()
