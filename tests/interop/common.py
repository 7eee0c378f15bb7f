"""The command line, checks and report that all Python clients share. The checks are the same as in common.mjs."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import traceback
from dataclasses import dataclass
from functools import partial
from typing import Any, Awaitable, Callable


@dataclass
class Failure(Exception):
    """A JSON-RPC error, independent of the client's own exception type."""

    code: int
    message: str


@dataclass
class Server:
    command: str | None = None
    args: list[str] | None = None
    url: str | None = None


def main(name: str, version: str, revisions: list[str], connect: Callable[[Server, str, Any], Any]) -> None:
    """Runs all checks of a suite once per revision. With `auto`, the client chooses the revision, which must be 2026-07-28.

        CLIENT.py [--suite SUITE] [--without FEATURE]… [--revision R]… (--http URL | [--] COMMAND ARGUMENT…)

    `connect(server, revision, user)` is an asynchronous context manager that yields an adapter (see `check`). `user` answers the
    server's requests with `elicit(params)` and `sample(params)`, in plain JSON. Without a `user`, the client declares neither
    capability. If the user has `roots`, the client declares them too, and adds the notifications that it receives to
    `user.notifications`, in plain JSON.
    """
    server, suite, without, only = command_line()
    for revision in only or revisions:
        checks = Checks()
        try:
            asyncio.run(run_revision(checks, server, suite, without, revision, connect))
        except BaseException as error:
            while isinstance(error, BaseExceptionGroup):  # task groups of the clients wrap exceptions
                error = error.exceptions[0]
            text = str(error) if isinstance(error, CheckFailure) else "".join(traceback.format_exception(error))
            sys.exit(f"FAILED {name} {version} {revision}: {text}")
        print(f"ok {name} {version} {revision}: {checks.count} checks", flush=True)


async def error_of(awaitable: Awaitable[Any]) -> Failure | None:
    """Returns the failure that an awaitable raises, or None."""
    try:
        await awaitable
    except Failure as failure:
        return failure
    return None


def command_line() -> tuple[Server, str, set[str], list[str]]:
    words = sys.argv[1:]
    suite = "notes"
    if words[:1] == ["--suite"]:
        suite = words[1]
        words = words[2:]
    repeated: dict[str, list[str]] = {"--without": [], "--revision": []}
    while words[:1] and words[0] in repeated:
        repeated[words[0]].append(words[1])
        words = words[2:]
    without, only = set(repeated["--without"]), repeated["--revision"]
    if words[:1] == ["--http"]:
        return Server(url=words[1]), suite, without, only
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        sys.exit("usage: CLIENT.py [--suite SUITE] [--without FEATURE]… [--revision R]… (--http URL | [--] COMMAND ARGUMENT…)")
    return Server(command=words[0], args=words[1:]), suite, without, only


async def run_revision(checks: Checks, server: Server, suite: str, without: set[str], revision: str, connect) -> None:
    async with asyncio.timeout(60):
        await SUITES[suite](checks, partial(connect, server, revision), "2026-07-28" if revision == "auto" else revision, without)


async def notes(checks: Checks, connect: Callable[[Any], Any], revision: str, _without: set[str]) -> None:
    async with connect(None) as client:
        await check(checks, client, revision)


async def ask(checks: Checks, connect: Callable[[Any], Any], revision: str, _without: set[str]) -> None:
    from ask import check  # imported here, because it imports this module

    await check(checks, connect, revision)


async def everything(checks: Checks, connect: Callable[[Any], Any], revision: str, without: set[str]) -> None:
    from everything import check  # imported here, because it imports this module

    await check(checks, connect, revision, without)


SUITES = {"notes": notes, "ask": ask, "everything": everything}


class CheckFailure(Exception):
    pass


class Checks:
    def __init__(self) -> None:
        self.count = 0

    def ok(self, condition: object, what: str, found: Any = None) -> None:
        self.count += 1
        if not condition:
            raise CheckFailure(what if found is None else f"{what}\n  found: {found!r}")

    def equal(self, actual: Any, expected: Any, what: str) -> None:
        same = actual == expected and type(actual) is type(expected)
        self.ok(same, f"{what}\n  found:    {actual!r}\n  expected: {expected!r}")

    def includes(self, text: str, word: str, what: str) -> None:
        self.ok(word in text, f"{what}: expected {word!r}", text)

    def error(self, failure: Failure | None, code: int, what: str, *words: str) -> None:
        self.ok(failure is not None, f"{what} is an error")
        self.equal(failure.code, code, f"the code of {what} ({failure.message})")
        for word in words:
            self.includes(failure.message, word, f"the error message of {what}")


async def check(t: Checks, client: Any, revision: str) -> None:
    """Runs the checks for `examples/notes`.

    The methods of an adapter return plain JSON and raise `Failure`: `negotiated()`, `ping()`, `tools()`, `call(name, arguments)`,
    `resources()`, `templates()`, `read(uri)`, `prompts()`, `prompt(name, arguments)` and `complete(ref, argument, value)`.
    """
    tag = f"interop-{random.randrange(16**6):06x}"
    t.equal(client.negotiated(), revision, "the negotiated revision")
    if revision < "2026-07-28":
        await client.ping()
        t.ok(True, "ping succeeds")

    # Tools and their schemas.
    tools = {tool["name"]: tool for tool in await client.tools()}
    t.equal(sorted(tools), ["add_note", "count_notes", "delete_note", "search_notes", "show_board"], "the names of the tools")
    for name, tool in tools.items():
        t.ok(tool.get("description"), f"{name} has a description")
        t.equal(tool["inputSchema"]["type"], "object", f"the input of {name} is an object")
        t.ok("properties" in tool["inputSchema"], f"the input of {name} declares properties, even if empty", tool)
    schemas = {name: tool["inputSchema"] for name, tool in tools.items()}
    t.equal(sorted(schemas["add_note"]["required"]), ["body", "title"], "the required arguments of add_note")
    t.equal(schemas["search_notes"]["required"], ["query"], "the required arguments of search_notes")
    limit = schemas["search_notes"]["properties"]["limit"]
    # An optional argument is listed as `anyOf` with `null`.
    integer, null = limit["anyOf"]
    t.equal([integer.get(key) for key in ("type", "minimum", "maximum")], ["integer", 1, 100], "the schema of limit")
    t.equal([null, limit["default"]], [{"type": "null"}, 10], "limit is optional")
    annotations = {name: tool.get("annotations", {}) for name, tool in tools.items()}
    t.equal(annotations["search_notes"].get("readOnlyHint", False), revision >= "2025-03-26", "search_notes is read-only")
    t.equal(annotations["delete_note"].get("destructiveHint", False), revision >= "2025-03-26", "delete_note is destructive")
    outputs = {name: tool["outputSchema"].get("type") for name, tool in tools.items() if "outputSchema" in tool}
    if revision >= "2025-06-18":
        search = "array" if revision >= "2026-07-28" else "object"
        t.equal([outputs.get("add_note"), outputs.get("count_notes")], ["object", "object"], "the output schemas")
        t.equal(outputs.get("search_notes"), search, "the output schema of search_notes")
    else:
        t.equal(outputs, {}, "no output schema before 2025-06-18")

    # Fill the client's cache, which must not hide later changes.
    before = await value(t, client, revision, "count_notes", {})
    t.ok(isinstance(before["notes"], int) and isinstance(before["tags"], int), "count_notes counts", before)
    await client.resources()
    await client.read("notes://all")

    # Valid calls.
    body = 'Grüße 👋 "quoted" \\ back\u2028slash\nsecond line\ttab \u0000 nul'
    notes = []
    for title in (f"Alpha {tag}", f"Beta {tag}"):
        note = await value(t, client, revision, "add_note", {"title": title, "body": body, "tags": [tag, "interop"]})
        t.equal([note["title"], note["body"], sorted(note["tags"])], [title, body, sorted([tag, "interop"])], "the returned note")
        t.ok(isinstance(note["id"], int) and note["created"], "a note has an id and a time", note)
        notes.append(note)
    notes.append(await value(t, client, revision, "add_note", {"title": f"Gamma {tag}", "body": ""}))
    t.equal(notes[2]["tags"], [], "tags are optional")

    found = await value(t, client, revision, "search_notes", {"query": tag})
    t.equal(sorted(note["id"] for note in found), sorted(note["id"] for note in notes), "search finds the notes")
    t.equal(len(await value(t, client, revision, "search_notes", {"query": tag, "limit": 1})), 1, "`limit` is applied")
    tagged = await value(t, client, revision, "search_notes", {"query": "Beta", "tag": tag})
    t.equal([note["id"] for note in tagged], [notes[1]["id"]], "`tag` is applied")
    t.equal(await value(t, client, revision, "search_notes", {"query": f"nothing{tag}"}), [], "a search without matches returns an empty list")

    counts = await asyncio.gather(*(value(t, client, revision, "count_notes", {}) for _ in range(32)))
    t.ok(all(count["notes"] == before["notes"] + 3 for count in counts), "all concurrent calls see the three notes", counts)

    # Invalid calls.
    for name, arguments, words in [
        ("search_notes", {}, ["query"]),
        ("search_notes", {"query": tag, "limit": "many"}, ["limit", "many"]),
        ("search_notes", {"query": tag, "limit": 1.5}, ["limit", "1.5"]),
        ("search_notes", {"query": tag, "limit": 0}, ["limit", "0", "1", "100"]),
        ("search_notes", {"query": tag, "limit": 101}, ["limit", "101", "1", "100"]),
        ("add_note", {"body": "b"}, ["title"]),
        ("add_note", {"title": "", "body": "b"}, ["title", "1"]),
        ("add_note", {"title": "x" * 201, "body": "b"}, ["title", "200"]),
        ("add_note", {"title": 7, "body": "b"}, ["title", "7"]),
        ("add_note", {"title": "Alpha", "body": "b", "tags": ["Not OK"]}, ["tags", "Not OK"]),
        ("delete_note", {"id": "first"}, ["id", "first"]),
    ]:
        what = f"{name} {json.dumps(arguments)[:60]}"
        result = await client.call(name, arguments)
        t.equal(result.get("isError"), True, f"{what} is an error")
        for word in words:
            t.includes(result["content"][0]["text"], word, f"the error message of {what}")
    after = await value(t, client, revision, "count_notes", {})
    t.equal(after["notes"], before["notes"] + 3, "an invalid call changes nothing")
    t.error(await error_of(client.call("no_such_tool", {})), -32602, "an unknown tool")

    # Resources.
    resources = {resource["uri"]: resource for resource in await client.resources()}
    uri = f"notes://note/{notes[0]['id']}"
    t.equal(resources.get("notes://all", {}).get("mimeType"), "text/markdown", "notes://all is listed")
    t.equal(resources.get(uri, {}).get("mimeType"), "application/json", "a new note is listed")
    templates = {template["uriTemplate"]: template for template in await client.templates()}
    t.equal(sorted(templates), ["notes://note/{id}", "notes://tag/{tag}"], "the templates")

    [everything] = await client.read("notes://all")
    t.equal([everything["uri"], everything["mimeType"]], ["notes://all", "text/markdown"], "reading notes://all")
    t.includes(everything["text"], f"Alpha {tag}", "notes://all")
    [one] = await client.read(uri)
    t.equal([one["uri"], one["mimeType"]], [uri, "application/json"], "reading a note")
    t.equal(json.loads(one["text"])["body"], body, "the body of the note")
    [of_tag] = await client.read(f"notes://tag/{tag}")
    t.includes(of_tag["text"], f"Beta {tag}", "notes://tag")
    t.ok(f"Gamma {tag}" not in of_tag["text"], "notes://tag contains only matching notes", of_tag)
    not_found = -32602 if revision >= "2026-07-28" else -32002
    t.error(await error_of(client.read("notes://nowhere")), not_found, "an unknown resource")

    # Prompts.
    prompts = {prompt["name"]: prompt for prompt in await client.prompts()}
    t.equal(sorted(prompts), ["summarise", "weekly_review"], "the prompts")
    t.ok(all(prompt.get("description") for prompt in prompts.values()), "prompts have descriptions", prompts)
    arguments = [(argument["name"], argument.get("required")) for argument in prompts["summarise"]["arguments"]]
    t.equal(arguments, [("tag", True), ("style", True)], "the arguments of summarise")
    summary = await client.prompt("summarise", {"tag": tag, "style": "brief"})
    t.includes(json.dumps(summary["messages"]), tag, "the messages of summarise")
    t.ok((await client.prompt("weekly_review", None))["messages"], "weekly_review returns messages")
    t.error(await error_of(client.prompt("summarise", {"tag": tag})), -32602, "a prompt without a required argument", "style")
    t.error(await error_of(client.prompt("summarise", {"tag": tag, "style": "loud"})), -32602, "a prompt with an invalid argument", "loud")
    t.error(await error_of(client.prompt("no_such_prompt", {})), -32602, "an unknown prompt")

    # Completion.
    prompt = {"type": "ref/prompt", "name": "summarise"}
    t.equal(await client.complete(prompt, "tag", tag[:-1]), [tag], "completing the tag of a prompt")
    t.equal(sorted(await client.complete(prompt, "style", "b")), ["brief", "bullets"], "completing the style of a prompt")
    of_tag = {"type": "ref/resource", "uri": "notes://tag/{tag}"}
    t.equal(await client.complete(of_tag, "tag", tag), [tag], "completing the tag of a template")
    of_id = {"type": "ref/resource", "uri": "notes://note/{id}"}
    t.ok(str(notes[0]["id"]) in await client.complete(of_id, "id", str(notes[0]["id"])), "completing the id of a template")

    # Clean up.
    for note in notes:
        result = await client.call("delete_note", {"id": note["id"]})
        t.ok(not result.get("isError") and result["content"][0]["type"] == "text", "delete_note returns text", result)
    t.equal(await value(t, client, revision, "count_notes", {}), before, "all added notes are deleted")


async def value(t: Checks, client: Any, revision: str, name: str, arguments: dict[str, Any]) -> Any:
    """Calls a tool and returns its value: the structured content or, in older revisions, the text as JSON."""
    result = await client.call(name, arguments)
    t.ok(not result.get("isError"), f"{name} succeeds", result)
    text = unwrap(json.loads(result["content"][0]["text"]))
    if revision < "2025-06-18":
        t.ok("structuredContent" not in result, "no structured content before 2025-06-18", result)
        return text
    structured = result.get("structuredContent")
    if name == "search_notes":
        is_array = revision >= "2026-07-28"
        t.equal(isinstance(structured, list), is_array, f"the structured content of {name} is an array from 2026-07-28 on")
    t.equal(unwrap(structured), text, f"text and structured content of {name}")
    return text


def unwrap(result: Any) -> Any:
    return result["result"] if isinstance(result, dict) and isinstance(result.get("result"), list) else result


def to_json(model: Any) -> Any:
    """Converts a pydantic model to JSON with the names of the protocol."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)
