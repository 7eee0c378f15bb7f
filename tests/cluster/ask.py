"""A client of the Python SDK 2.x that answers questions: tests/cluster/run starts it with the URL of a load balancer."""

import asyncio
import sys

import mcp_types as types
from mcp import Client


async def main():
    questions = []

    async def answer(_, params):
        questions.append(params.message)
        return types.ElicitResult(action="accept", content={"sure": True})

    for mode in ("2026-07-28", "legacy"):
        async with Client(sys.argv[1], mode=mode, elicitation_callback=answer) as client:

            async def call(name, arguments):
                return (await client.call_tool(name, arguments)).content[0].text

            toppings = [f"topping {number}" for number in range(20)]
            ordered = await asyncio.gather(*(call("order", {"topping": topping}) for topping in toppings))
            for topping, text in zip(toppings, ordered):
                assert text.startswith(f"a guest ordered a pizza with {topping} from process "), text
            replicas = set(await asyncio.gather(*(call("replica", {}) for _ in toppings)))
            assert len(replicas) > 1, replicas
    assert len(questions) == 40, questions


asyncio.run(main())
