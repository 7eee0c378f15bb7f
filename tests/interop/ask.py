"""What every Python client checks against a server that asks its user, `examples/ask`. The same table as in ask.mjs."""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any, Callable

from common import Checks, caught

Answer = dict[str, Any]


class User:
    """Who answers for the user: `answer` gets a message, and gives None if nobody expects the question."""

    def __init__(self) -> None:
        self.answer: Callable[[str], Answer | None] = lambda message: None
        self.asked: list[dict[str, Any]] = []
        self.prompts: list[dict[str, Any]] = []

    def elicit(self, params: dict[str, Any]) -> Answer:
        self.asked.append(params)
        answer = self.answer(params["message"])
        assert answer, f"nobody expected {params['message']!r}"
        return answer

    def sample(self, params: dict[str, Any]) -> dict[str, Any]:
        self.prompts.append(params)
        content = {"type": "text", "text": "Do come!"}
        return {"role": "assistant", "content": content, "model": "none", "stopReason": "endTurn"}

    def messages(self) -> list[str]:
        """What was asked since the last time."""
        asked, self.asked = self.asked, []
        return [params["message"] for params in asked]


def accept(**content: Any) -> Answer:
    return {"action": "accept", "content": content}


DECLINED = {"action": "decline"}
CANCELLED = {"action": "cancel"}
SURE = accept(sure=True)


async def check(t: Checks, connect: Callable[[User | None], Any], revision: str) -> None:
    """`connect(user)` connects a client, which declares elicitation and sampling if there is a user.

    Users can be asked from 2025-06-18 on, their models in every revision.
    """
    async with connect(None) as client:
        t.equal(client.negotiated(), revision, "the negotiated revision")
        await check_refusal(t, client, revision, "book_seats", "elicitation")
        await check_refusal(t, client, revision, "invitation", "sampling")
    user = User()
    async with connect(user) as client:
        await check_sampling(t, client, user)
        if revision >= "2025-06-18":
            await check_form(t, client, user, revision)
            await check_confirmation(t, client, user, revision)
            await check_seats(t, client, user, revision)
            await check_several(t, client, user, revision)
            await check_bad_answer(t, client, user, revision)
        else:
            await check_refusal(t, client, revision, "book_seats", "elicitation")
            t.equal(user.asked, [], "nobody is asked before 2025-06-18")


async def check_refusal(t: Checks, client: Any, revision: str, tool: str, capability: str) -> None:
    code = -32021 if revision >= "2026-07-28" else -32600
    t.error(await caught(client.call(tool, {"play": "Faust"})), code, f"{tool} without {capability}", capability)


async def check_sampling(t: Checks, client: Any, user: User) -> None:
    t.equal(await said(t, client, "invitation", {"play": "Faust"}), "Do come!", "the invitation")
    t.equal(len(user.prompts), 1, "the model is asked once")
    [message] = user.prompts[0]["messages"]
    t.equal(message["role"], "user", "who asks the model")
    t.equal(text(message["content"]), "Write one sentence that invites a friend to see Faust.", "what the model is asked")
    t.equal(user.prompts[0]["maxTokens"], 100, "how much the model may write")


async def check_form(t: Checks, client: Any, user: User, revision: str) -> None:
    """Three questions in order, each with its form; and the first one cancelled."""
    play = new_play()
    await book(t, client, user, revision, play)
    party, places, pay = (params["requestedSchema"] for params in user.asked)
    t.equal(user.messages(), list(answers(revision, play)), "the questions")

    properties = party["properties"]
    t.equal(sorted(properties), ["email", "name", "seats"], "the first form")
    t.ok("name" in party["required"], "a name is required", party)
    t.ok("email" not in party["required"], "an address is not required", party)
    t.equal(picked(properties["name"], "type", "title", "minLength", "maxLength"), ["string", "Name", 1, 40], "the question for a name")
    t.equal(picked(properties["email"], "type", "format"), ["string", "email"], "the question for an address")
    t.equal(picked(properties["seats"], "type", "minimum", "maximum"), ["integer", 1, 8], "the question for a number")

    extras = dict(places["properties"])
    area = extras.pop("area")
    choices = area.get("enum") or [choice["const"] for choice in area["oneOf"]]
    titles = area.get("enumNames") or [choice["title"] for choice in area["oneOf"]]
    t.equal(choices, ["stalls", "balcony"], "the choices of an area")
    t.equal(titles, ["Stalls, near the stage", "Balcony, with a view"], "their titles")
    if revision >= "2025-11-25":
        several = extras["extras"]
        t.equal([choice["const"] for choice in several["items"]["anyOf"]], ["wheelchair", "programme"], "the choices of extras")
        t.equal(picked(several, "type", "maxItems"), ["array", 2], "how many extras")
    else:
        t.equal(sorted(extras), ["extras.programme", "extras.wheelchair"], "one question for each extra")
        t.ok(all(extra["type"] == "boolean" for extra in extras.values()), "an extra is a yes or a no", extras)
    t.equal(pay["properties"]["sure"]["type"], "boolean", "the last form")

    user.answer = lambda message: CANCELLED
    t.equal(await said(t, client, "book_seats", {"play": play}), "nothing was booked", "who cancels books nothing")
    t.equal(len(user.messages()), 1, "who cancels is asked nothing more")


async def check_confirmation(t: Checks, client: Any, user: User, revision: str) -> None:
    play = new_play()
    number = await book(t, client, user, revision, play)
    user.messages()
    question = f"Cancel booking {number}, 2 seats for Grace ({play})?"
    kept = f"booking {number} was kept"
    all_answers = [
        (DECLINED, kept),
        (CANCELLED, kept),
        (accept(sure=False), kept),
        (SURE, f"booking {number} is cancelled"),
    ]
    for answer, told in all_answers:
        user.answer = lambda message: answer
        t.equal(await said(t, client, "cancel_booking", {"number": number}), told, f"the answer {answer}")
        t.equal(user.messages(), [question], "the question before a booking is cancelled")
    told = await said(t, client, "cancel_booking", {"number": number})
    t.equal(told, f"booking {number} not found", "a booking that is gone")
    t.equal(user.messages(), [], "nobody is asked about a booking that is gone")


async def check_seats(t: Checks, client: Any, user: User, revision: str) -> None:
    """The hall has twelve seats: held twice or never given back, they would run out."""
    play = new_play()
    eight = answers(revision, play, 8)
    nothing = re.escape("nothing was booked")
    all_answers = [
        (DECLINED, nothing),
        (DECLINED, nothing),
        (SURE, r"booking \d+: 8 seats in the Balcony.*"),
        (SURE, re.escape(f"not enough seats left for {play}")),
    ]
    for last, told in all_answers:
        user.answer = lambda message: last if message.endswith("Book them?") else eight.get(message)
        seen = await said(t, client, "book_seats", {"play": play})
        t.ok(re.fullmatch(told, seen), f"what is told of eight seats: {told}", seen)


async def check_several(t: Checks, client: Any, user: User, revision: str) -> None:
    """Calls that ask at the same time, for one user."""
    plays = {seats: new_play() for seats in range(1, 5)}
    everything = {}
    for seats, play in plays.items():
        everything |= answers(revision, play, seats, f"Guest {seats}")
    user.answer = everything.get
    told = await asyncio.gather(*(said(t, client, "book_seats", {"play": play}) for play in plays.values()))
    for seats, seen in zip(plays, told):
        t.includes(seen, f": {seats} seats in the Balcony", "what several calls book at once")


async def check_bad_answer(t: Checks, client: Any, user: User, revision: str) -> None:
    """While a call waits, an answer that does not fit its question ends it; round by round, the question is asked again."""
    play = new_play()
    good = answers(revision, play)
    user.messages()
    user.answer = lambda message: accept(name="Grace", seats=99) if len(user.asked) == 1 else good.get(message)
    if revision >= "2026-07-28":
        told = await said(t, client, "book_seats", {"play": play})
        t.includes(told, ": 2 seats in the Balcony", "a good answer after a bad one")
        t.equal(user.messages(), [next(iter(good)), *good], "the question that is asked again")
    else:
        t.error(await caught(client.call("book_seats", {"play": play})), -32603, "a bad answer", "seats", "99")
        t.equal(len(user.messages()), 1, "nothing is asked after a bad answer")


async def book(t: Checks, client: Any, user: User, revision: str, play: str) -> int:
    """Books two seats, and gives the booking's number."""
    user.answer = answers(revision, play).get
    told = await said(t, client, "book_seats", {"play": play})
    start = re.match(r"booking (\d+): ", told)
    t.ok(start, "seats are booked", told)
    booked = f"{start[0]}2 seats in the Balcony, with [Programme]; the tickets go to grace@example.com"
    t.equal(told, booked, "what is booked")
    return int(start[1])


def answers(revision: str, play: str, seats: int = 2, name: str = "Grace") -> dict[str, Answer]:
    """The three questions of a booking, and their answers."""
    several = {"extras": ["programme"]}
    one_by_one = {"extras.programme": True, "extras.wheelchair": False}
    extras = several if revision >= "2025-11-25" else one_by_one
    return {
        f"Who would like to see {play}?": accept(name=name, email="grace@example.com", seats=seats),
        f"Where would you like to sit, {name}?": accept(area="balcony", **extras),
        f"{seats} seats for {play} cost {seats * 25} francs. Book them?": SURE,
    }


def new_play() -> str:
    """A play that nobody has booked yet."""
    return f"Faust {random.randrange(16**6):06x}"


async def said(t: Checks, client: Any, name: str, arguments: dict[str, Any]) -> str:
    result = await client.call(name, arguments)
    t.ok(not result.get("isError"), f"{name} succeeds", result)
    return text(result["content"])


def text(content: Any) -> str:
    """The text of a block; where there may be one block or several, of the only one."""
    [block] = content if isinstance(content, list) else [content]
    return block["text"]


def picked(schema: dict[str, Any], *keys: str) -> list[Any]:
    return [schema.get(key) for key in keys]
