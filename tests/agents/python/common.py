"""The checks that all Python clients share. README.md describes the plan they read and the lines they print."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import traceback
from importlib.metadata import version
from typing import Any, Awaitable, Callable

TIME_LIMIT = 30  # seconds for one check

# The answers to the forms of `ask`, by a field that only this form has.
ANSWERS = {
    "name": {"name": "Ada", "email": "ada@example.com", "seats": 2},
    "area": {"area": "stalls", "extras": []},
    "sure": {"sure": True},
}


class Unsupported(Exception):
    """Raised by a client for what its framework does not offer. The check is left out."""


class Client:
    """One connection of a framework to one server. Subclasses use the functions that an agent of the framework runs.

    `call` returns what the model reads, and raises what ends the run of the agent.
    """

    answers_forms = False  # whether the framework lets its user answer elicitation requests

    def __init__(self, target: dict, answer: Callable[[dict], dict] | None = None):
        self.target = target
        self.answer = answer

    @property
    def command(self) -> list[str]:
        return self.target["command"]

    @property
    def url(self) -> str | None:
        return self.target.get("url")

    async def __aenter__(self) -> "Client":
        raise NotImplementedError

    async def __aexit__(self, *error: Any) -> None:
        raise NotImplementedError

    async def tools(self) -> dict[str, Any]:
        """Returns the schema of the parameters of each tool, as the framework sends it to a provider."""
        raise NotImplementedError

    async def call(self, name: str, arguments: dict) -> str:
        raise NotImplementedError

    async def resources(self) -> list[str]:
        raise Unsupported

    async def read(self, uri: str) -> str:
        raise Unsupported

    async def prompts(self) -> list[str]:
        raise Unsupported

    async def prompt(self, name: str, arguments: dict) -> str:
        raise Unsupported


def answer_form(schema: dict) -> dict:
    """Answers a form of `ask`, as its user would."""
    fields = schema.get("properties", {})
    return next(answer for field, answer in ANSWERS.items() if field in fields)


def text_of(value: Any) -> str:
    """Returns a result as text, whatever its type."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, default=lambda other: other.model_dump() if hasattr(other, "model_dump") else str(other))
    except (TypeError, ValueError):
        return str(value)


def schema_in(tools: dict[str, Any], name: str) -> Any:
    """Returns the schema of a tool, whose name the framework may have prefixed."""
    return next(schema for key, schema in tools.items() if key == name or key.endswith(name))


def main(framework: str, package: str, connect: type[Client]) -> None:
    """Runs the plan whose file is the first argument."""
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    # Frameworks print to stdout too, which therefore is only used for lines of this program.
    sys.stdout, out = sys.stderr, sys.stdout
    about = {"framework": framework, "version": version(package)}

    def write(**line: Any) -> None:
        print(json.dumps({**about, **line}), file=out, flush=True)

    logged = LogRecorder()
    logging.getLogger().addHandler(logged)
    logging.captureWarnings(True)
    for target in plan["servers"]:
        asyncio.run(Behaviour(write, connect, logged, target).run())
    asyncio.run(convert(write, connect, plan["shapes"]))
    out.flush()


class LogRecorder(logging.Handler):
    """Keeps warnings and errors that a framework logs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != "py.warnings":  # deprecations within the framework
            self.lines.append(f"{record.name}: {record.getMessage()}")


class Behaviour:
    """The checks of one server over one transport."""

    def __init__(self, write: Callable, connect: type[Client], logged: LogRecorder, target: dict):
        self.write, self.connect, self.logged, self.target = write, connect, logged, target

    async def run(self) -> None:
        self.logged.lines.clear()
        server = self.target["server"]
        await getattr(self, server)()
        self.report("warnings", "fail" if self.logged.lines else "ok", "\n".join(self.logged.lines))

    async def connected(self, checks: Callable[[Client], Awaitable[None]], answer: Callable | None = None) -> None:
        """Connects for a group of checks. Reports a failure to connect or to disconnect as `connect`."""
        try:
            async with asyncio.timeout(4 * TIME_LIMIT), self.connect(self.target, answer) as client:
                await checks(client)
        except Exception as error:
            self.report("connect", "fail", describe(error))

    async def check(self, name: str, run: Awaitable[Any], *parts: str) -> Any:
        """Reports a check, which fails with an exception, or if the text of the result lacks one of the parts."""
        try:
            async with asyncio.timeout(TIME_LIMIT):
                result = await run
        except Unsupported:
            return None
        except Exception as error:
            self.report(name, "fail", describe(error))
            return None
        text = text_of(result)
        missing = [part for part in parts if part not in text]
        detail = f"{missing} not in {text[:600]}" if missing else text[:200]
        self.report(name, "fail" if missing else "ok", detail)
        return result

    async def bad(self, name: str, run: Awaitable[Any], *parts: str) -> None:
        """Reports a check of a bad call, whose message the model must read. What the framework logs about it does not count."""
        known = len(self.logged.lines)
        await self.check(name, run, *parts)
        del self.logged.lines[known:]

    def report(self, check: str, outcome: str, detail: str = "") -> None:
        target = self.target
        self.write(
            kind="behaviour", server=target["server"], transport=target["transport"], check=check, outcome=outcome, detail=detail
        )

    async def notes(self) -> None:
        await self.connected(self.notes_checks)
        await self.connected(self.unknown_tool)

    async def notes_checks(self, client: Client) -> None:
        await self.check("list", client.tools(), "add_note", "search_notes", "delete_note", "count_notes")
        await self.check("call", client.call("add_note", {"title": "Milk", "body": "Two litres", "tags": ["shopping"]}), "Two litres")
        await self.check("null", client.call("search_notes", {"query": "litres", "tag": None, "limit": None}), "Milk")
        await self.check("omitted", client.call("search_notes", {"query": "litres"}), "Milk")
        await self.bad("ill-typed", client.call("search_notes", {"query": "x", "limit": "many"}), "limit")
        await self.bad("out-of-range", client.call("search_notes", {"query": "x", "limit": 1000}), "limit", "100")
        await self.bad("missing", client.call("add_note", {"title": "Milk"}), "body")
        await self.bad("unknown-argument", client.call("add_note", {"title": "x", "body": "y", "colour": "red"}), "colour")
        await self.bad("tool-error", client.call("delete_note", {"id": 99}), "note 99 not found")
        await self.check("resources", client.resources(), "notes://all")
        await self.check("read", client.read("notes://note/1"), "Two litres")
        await self.check("prompts", client.prompts(), "summarise", "weekly_review")
        await self.check("prompt", client.prompt("summarise", {"tag": "shopping", "style": "brief"}), "two sentences")

    async def unknown_tool(self, client: Client) -> None:
        await self.bad("unknown-tool", client.call("no_such_tool", {}), "no_such_tool")

    async def everything(self) -> None:
        await self.connected(self.everything_checks)
        await self.connected(self.missing_capability)

    async def everything_checks(self, client: Client) -> None:
        await self.check("list", client.tools(), "test_simple_text", "json_schema_2020_12_tool")
        await self.check("call", client.call("test_simple_text", {}), "simple text response")
        await self.check("image", client.call("test_image_content", {}))
        await self.check("contents", client.call("test_multiple_content_types", {}), "Multiple content types")
        await self.bad("tool-error", client.call("test_error_handling", {}), "intentionally returns an error")
        await self.bad("missing", client.call("json_schema_2020_12_tool", {"name": "Ada"}), "email")
        await self.check("resources", client.resources(), "test://static-text")
        await self.check("read", client.read("test://static-text"), "static text resource")
        await self.check("prompts", client.prompts(), "test_simple_prompt")
        await self.check("prompt", client.prompt("test_simple_prompt", {}), "simple prompt")

    async def missing_capability(self, client: Client) -> None:
        await self.bad("missing-capability", client.call("test_sampling", {"prompt": "Hello"}), "sampling")

    async def ask(self) -> None:
        await self.connected(self.ask_checks)
        if self.connect.answers_forms:
            await self.connected(self.answered, answer_form)

    async def ask_checks(self, client: Client) -> None:
        await self.check("list", client.tools(), "book_seats")
        await self.check("call", client.call("cancel_booking", {"number": 7}), "booking 7 not found")
        await self.bad("ask-unsupported", client.call("book_seats", {"play": "Hamlet"}), "elicitation")

    async def answered(self, client: Client) -> None:
        await self.check("ask", client.call("book_seats", {"play": "Hamlet"}), "2 seats in the Stalls")


async def convert(write: Callable, connect: type[Client], shapes: list[dict]) -> None:
    """Prints what becomes of each form of each shape."""
    for shape in shapes:
        line = {"kind": "shape", "shape": shape["shape"], "form": shape["form"]}
        target = {"server": "shapes", "transport": "stdio", "command": shape["command"]}
        try:
            async with asyncio.timeout(TIME_LIMIT), connect(target) as client:
                write(**line, converted=schema_in(await client.tools(), "probe"))
        except Exception as error:
            write(**line, error=describe(error))


def describe(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):  # task groups of the clients wrap exceptions
        error = error.exceptions[0]
    text = "".join(traceback.format_exception_only(error)).strip()
    return text[:800]
