"""The checks of all Python clients for `examples/ask`, a server that sends elicitation and sampling requests.

The checks are the same as in ask.mjs.
"""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any, Callable

from common import Checks, error_of

Answer = dict[str, Any]


class User:
    """Answers on behalf of the user. `answer(message)` returns the answer to a question, or None if the question is unexpected."""

    def __init__(self) -> None:
        self.answer: Callable[[str], Answer | None] = lambda message: None
        self.elicitations: list[dict[str, Any]] = []
        self.sampling_requests: list[dict[str, Any]] = []

    def elicit(self, params: dict[str, Any]) -> Answer:
        self.elicitations.append(params)
        answer = self.answer(params["message"])
        assert answer, f"unexpected question: {params['message']!r}"
        return answer

    def sample(self, params: dict[str, Any]) -> dict[str, Any]:
        self.sampling_requests.append(params)
        content = {"type": "text", "text": "Do come!"}
        return {"role": "assistant", "content": content, "model": "none", "stopReason": "endTurn"}

    def take_questions(self) -> list[str]:
        """Returns the questions since the last call of this method."""
        elicitations, self.elicitations = self.elicitations, []
        return [params["message"] for params in elicitations]


def accept(**content: Any) -> Answer:
    return {"action": "accept", "content": content}


DECLINED = {"action": "decline"}
CANCELLED = {"action": "cancel"}
SURE = accept(sure=True)


async def check(t: Checks, connect: Callable[[User | None], Any], revision: str) -> None:
    """Runs the checks for `examples/ask`.

    `connect(user)` connects a client, which declares elicitation and sampling if there is a user. Elicitation exists since
    2025-06-18, sampling in every revision.
    """
    async with connect(None) as client:
        t.equal(client.negotiated(), revision, "the negotiated revision")
        await check_missing_capability(t, client, revision, "book_seats", "elicitation")
        await check_missing_capability(t, client, revision, "invitation", "sampling")
    user = User()
    async with connect(user) as client:
        await check_sampling(t, client, user)
        if revision >= "2025-06-18":
            await check_form(t, client, user, revision)
            await check_confirmation(t, client, user, revision)
            await check_seats(t, client, user, revision)
            await check_concurrent_calls(t, client, user, revision)
            if not getattr(client, "validates_answers", False):
                await check_invalid_answer(t, client, user, revision)
        else:
            await check_missing_capability(t, client, revision, "book_seats", "elicitation")
            t.equal(user.elicitations, [], "the user is not asked before 2025-06-18")


async def check_missing_capability(t: Checks, client: Any, revision: str, tool: str, capability: str) -> None:
    call, what = client.call(tool, {"play": "Faust"}), f"{tool} without {capability}"
    if revision >= "2026-07-28":
        t.error(await error_of(call), -32021, what, capability)
    else:
        check_tool_error(t, await call, what, capability)


def check_tool_error(t: Checks, result: Any, what: str, *words: str) -> None:
    t.equal(result.get("isError"), True, f"{what} is an error of the tool")
    for word in words:
        t.includes(result["content"][0]["text"], word, f"the error message of {what}")


async def check_sampling(t: Checks, client: Any, user: User) -> None:
    t.equal(await call_text(t, client, "invitation", {"play": "Faust"}), "Do come!", "the invitation")
    t.equal(len(user.sampling_requests), 1, "there is one sampling request")
    [message] = user.sampling_requests[0]["messages"]
    t.equal(message["role"], "user", "the role of the message")
    t.equal(text(message["content"]), "Write one sentence that invites a friend to see Faust.", "the text of the message")
    t.equal(user.sampling_requests[0]["maxTokens"], 100, "the maximum number of tokens")


async def check_form(t: Checks, client: Any, user: User, revision: str) -> None:
    """Checks the three forms of a booking, and that cancelling the first one ends the call."""
    play = new_play()
    await book(t, client, user, revision, play)
    party, places, pay = (params["requestedSchema"] for params in user.elicitations)
    t.equal(user.take_questions(), list(answers(revision, play)), "the questions")

    properties = party["properties"]
    t.equal(sorted(properties), ["email", "name", "seats"], "the fields of the first form")
    t.ok("name" in party["required"], "name is required", party)
    t.ok("email" not in party["required"], "email is optional", party)
    t.equal(values_of(properties["name"], "type", "title", "minLength", "maxLength"), ["string", "Name", 1, 40], "the schema of name")
    t.equal(values_of(properties["email"], "type", "format"), ["string", "email"], "the schema of email")
    t.equal(values_of(properties["seats"], "type", "minimum", "maximum"), ["integer", 1, 8], "the schema of seats")

    extras = dict(places["properties"])
    area = extras.pop("area")
    choices = area.get("enum") or [choice["const"] for choice in area["oneOf"]]
    titles = area.get("enumNames") or [choice["title"] for choice in area["oneOf"]]
    t.equal(choices, ["stalls", "balcony"], "the choices of area")
    t.equal(titles, ["Stalls, near the stage", "Balcony, with a view"], "the titles of the choices of area")
    if revision >= "2025-11-25":
        several = extras["extras"]
        t.equal([choice["const"] for choice in several["items"]["anyOf"]], ["wheelchair", "programme"], "the choices of extras")
        t.equal(values_of(several, "type", "maxItems"), ["array", 2], "the maximum number of extras")
    else:
        t.equal(sorted(extras), ["extras.programme", "extras.wheelchair"], "one field per extra")
        t.ok(all(extra["type"] == "boolean" for extra in extras.values()), "each extra is a boolean", extras)
    t.equal(pay["properties"]["sure"]["type"], "boolean", "the last form")

    user.answer = lambda message: CANCELLED
    t.equal(await call_text(t, client, "book_seats", {"play": play}), "nothing was booked", "cancelling books nothing")
    t.equal(len(user.take_questions()), 1, "no further question after cancelling")


async def check_confirmation(t: Checks, client: Any, user: User, revision: str) -> None:
    play = new_play()
    number = await book(t, client, user, revision, play)
    user.take_questions()
    question = f"Cancel booking {number}, 2 seats for Grace ({play})?"
    unchanged = f"booking {number} was kept"
    all_answers = [
        (DECLINED, unchanged),
        (CANCELLED, unchanged),
        (accept(sure=False), unchanged),
        (SURE, f"booking {number} is cancelled"),
    ]
    for answer, expected in all_answers:
        user.answer = lambda message: answer
        t.equal(await call_text(t, client, "cancel_booking", {"number": number}), expected, f"the answer {answer}")
        t.equal(user.take_questions(), [question], "the confirmation question")
    found = await call_text(t, client, "cancel_booking", {"number": number})
    t.equal(found, f"booking {number} not found", "a booking that was cancelled")
    t.equal(user.take_questions(), [], "no question about a booking that was cancelled")


async def check_seats(t: Checks, client: Any, user: User, revision: str) -> None:
    """Checks that seats are released. The hall has twelve: if any were held twice or not released, they would run out."""
    play = new_play()
    eight = answers(revision, play, 8)
    nothing = re.escape("nothing was booked")
    all_answers = [
        (DECLINED, nothing),
        (DECLINED, nothing),
        (SURE, r"booking \d+: 8 seats in the Balcony.*"),
        (SURE, re.escape(f"not enough seats left for {play}")),
    ]
    for last, expected in all_answers:
        user.answer = lambda message: last if message.endswith("Book them?") else eight.get(message)
        found = await call_text(t, client, "book_seats", {"play": play})
        t.ok(re.fullmatch(expected, found), f"booking eight seats: {expected}", found)


async def check_concurrent_calls(t: Checks, client: Any, user: User, revision: str) -> None:
    """Checks concurrent calls that ask the same user."""
    plays = {seats: new_play() for seats in range(1, 5)}
    everything = {}
    for seats, play in plays.items():
        everything |= answers(revision, play, seats, f"Guest {seats}")
    user.answer = everything.get
    texts = await asyncio.gather(*(call_text(t, client, "book_seats", {"play": play}) for play in plays.values()))
    for seats, found in zip(plays, texts):
        t.includes(found, f": {seats} seats in the Balcony", "the seats of a concurrent booking")


async def check_invalid_answer(t: Checks, client: Any, user: User, revision: str) -> None:
    """Checks an invalid answer. It ends a call that waits for it. From 2026-07-28 on, the question is asked again."""
    play = new_play()
    valid = answers(revision, play)
    user.take_questions()
    invalid = accept(name="Grace", seats=99)
    user.answer = lambda message: invalid if len(user.elicitations) == 1 else valid.get(message.split("\n")[0])
    if revision >= "2026-07-28":
        found = await call_text(t, client, "book_seats", {"play": play})
        t.includes(found, ": 2 seats in the Balcony", "a valid answer after an invalid one")
        questions = user.take_questions()
        t.includes(questions[1], "99", "the repeated question says why")
        questions = [question.split("\n")[0] for question in questions]
        t.equal(questions, [next(iter(valid)), *valid], "the first question is repeated")
    else:
        check_tool_error(t, await client.call("book_seats", {"play": play}), "an invalid answer", "seats", "99")
        t.equal(len(user.take_questions()), 1, "no question after an invalid answer")


async def book(t: Checks, client: Any, user: User, revision: str, play: str) -> int:
    """Books two seats and returns the number of the booking."""
    user.answer = answers(revision, play).get
    found = await call_text(t, client, "book_seats", {"play": play})
    start = re.match(r"booking (\d+): ", found)
    t.ok(start, "seats are booked", found)
    booked = f"{start[0]}2 seats in the Balcony, with [Programme]; the tickets go to grace@example.com"
    t.equal(found, booked, "the result of booking")
    return int(start[1])


def answers(revision: str, play: str, seats: int = 2, name: str = "Grace") -> dict[str, Answer]:
    """Returns the three questions of a booking with their answers."""
    one_field = {"extras": ["programme"]}
    field_per_extra = {"extras.programme": True, "extras.wheelchair": False}
    extras = one_field if revision >= "2025-11-25" else field_per_extra
    return {
        f"Who would like to see {play}?": accept(name=name, email="grace@example.com", seats=seats),
        f"Where would you like to sit, {name}?": accept(area="balcony", **extras),
        f"{seats} seats for {play} cost {seats * 25} francs. Book them?": SURE,
    }


def new_play() -> str:
    """Returns a play without bookings."""
    return f"Faust {random.randrange(16**6):06x}"


async def call_text(t: Checks, client: Any, name: str, arguments: dict[str, Any]) -> str:
    """Calls a tool and returns the text of its result."""
    result = await client.call(name, arguments)
    t.ok(not result.get("isError"), f"{name} succeeds", result)
    return text(result["content"])


def text(content: Any) -> str:
    """Returns the text of a content block, which some revisions wrap in an array."""
    [block] = content if isinstance(content, list) else [content]
    return block["text"]


def values_of(schema: dict[str, Any], *keys: str) -> list[Any]:
    return [schema.get(key) for key in keys]
