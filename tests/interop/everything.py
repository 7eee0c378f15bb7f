"""The checks of all Python clients for `examples/everything`: what happens besides requests and their responses.

The checks are the same as in everything.mjs.
"""

from __future__ import annotations

import asyncio
import base64
import re
import time
from pathlib import Path
from typing import Any, Callable

from common import Checks

WATCHED = "test://watched-resource"
DEADLINE = 10  # seconds
MEDIA = Path(__file__).resolve().parents[2] / "examples/everything/media"


class User:
    """The state of a client: its roots, and the notifications that it received, with their parameters in plain JSON."""

    def __init__(self) -> None:
        self.roots = [{"uri": "file:///interop/one", "name": "One"}]
        self.notifications: list[dict[str, Any]] = []

    def received(self, method: str) -> list[dict[str, Any]]:
        """Returns the parameters of the notifications of a method."""
        return [message.get("params") or {} for message in self.notifications if message["method"] == method]

    def elicit(self, params: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError(f"unexpected question: {params['message']!r}")

    def sample(self, params: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError(f"unexpected request for sampling: {params!r}")


async def check(t: Checks, connect: Callable[[User | None], Any], revision: str, without: set[str]) -> None:
    """Runs the checks for `examples/everything`, except for those of the features in `without`.

    In addition to the methods for `examples/notes`, adapters have `call_with_progress(name, arguments)`, which returns the result and
    the updates; `set_level(level)`; `subscribed(uri)` and `watched_lists()`, context managers for the time in which notifications are
    requested; `start_call(name, arguments)`, which returns a running call with `started`, an event, and `cancel()`; `roots_changed()`;
    and `start_task(name, arguments)`, `wait_for_task(id)`, `task_status(id)`, `task_ids()` and `cancel_task(id)`.
    """
    user = User()
    async with connect(user) as client:
        t.equal(client.negotiated(), revision, "the negotiated revision")
        for feature, (first, last, run) in FEATURES.items():
            if first <= revision <= last and feature not in without:
                await run(t, client, user, revision)


async def check_binary(t: Checks, client: Any, _user: User, revision: str) -> None:
    png, wav = ((MEDIA / name).read_bytes() for name in ("pixel.png", "silence.wav"))
    image = (await client.call("test_image_content", {}))["content"][0]
    t.equal([image["type"], image["mimeType"], base64.b64decode(image["data"])], ["image", "image/png", png], "an image")
    audio = (await client.call("test_audio_content", {}))["content"][0]
    if revision >= "2025-03-26":
        t.equal([audio["type"], audio["mimeType"], base64.b64decode(audio["data"])], ["audio", "audio/wav", wav], "audio")
    else:
        found = [audio["type"], base64.b64decode(audio["resource"]["blob"])]
        t.equal(found, ["resource", wav], "audio is an embedded resource before 2025-03-26")
    [blob] = await client.read("test://static-binary")
    t.equal([blob["mimeType"], base64.b64decode(blob["blob"]), blob.get("text")], ["image/png", png, None], "a resource of bytes")
    content = (await client.prompt("test_prompt_with_image", {}))["messages"][0]["content"]
    t.equal([content["type"], base64.b64decode(content["data"])], ["image", png], "an image in a prompt")


async def check_progress(t: Checks, client: Any, _user: User, revision: str) -> None:
    has_messages = revision >= "2025-03-26"
    expected = [(done, 100, f"Completed step {done} of 100" if has_messages else None) for done in (0, 50, 100)]
    # The progress tokens of two concurrent calls differ, or one would receive the updates of the other.
    for result, updates in await asyncio.gather(*(client.call_with_progress("test_tool_with_progress", {}) for _ in range(2))):
        t.equal(result["content"][0]["text"], "The work is done.", "the result of a call with progress")
        await until(lambda: len(updates) >= len(expected))
        t.equal(updates, expected, "the progress of a call")


async def check_logging(t: Checks, client: Any, user: User, _revision: str, deadline: float = DEADLINE) -> None:
    """Checks which messages calls send. A process that was not asked to set the level may use it only after `deadline` seconds."""

    def messages() -> list[str]:
        return [f"{params['level']}: {params['data']}" for params in user.received("notifications/message")]

    async def logged() -> list[str]:
        user.notifications.clear()
        t.ok(not (await client.call("test_log_levels", {})).get("isError"), "test_log_levels succeeds")
        await until(lambda: messages()[-1:] == ["error: error message"])
        return messages()

    for level, levels in (("warning", ("warning", "error")), ("debug", ("debug", "info", "warning", "error"))):
        expected = [f"{level}: {level} message" for level in levels]
        await client.set_level(level)
        end = time.monotonic() + deadline
        found = await logged()
        while found != expected and time.monotonic() < end:
            found = await logged()
        t.equal(found, expected, f"messages at the level {level}")
    await client.set_level("emergency")


async def check_immediate_level(t: Checks, client: Any, user: User, revision: str) -> None:
    await check_logging(t, client, user, revision, deadline=0)


async def check_subscriptions(t: Checks, client: Any, user: User, revision: str) -> None:
    def updates() -> list[str]:
        return [params["uri"] for params in user.received("notifications/resources/updated")]

    async def trigger() -> str:
        return (await client.call("test_trigger_resource_change", {}))["content"][0]["text"]

    user.notifications.clear()
    async with client.subscribed(WATCHED):
        for count in (1, 2):
            number = re.search(r"\d+", await trigger())[0]
            await until(lambda: len(updates()) >= count)
            t.equal(updates(), [WATCHED] * count, "the updates of a subscribed resource")
            [contents] = await client.read(WATCHED)
            t.equal(contents["text"], f"The resource was updated {number} times.", "the updated resource")
    await client.read(WATCHED)  # some clients end the subscription in the background
    await trigger()
    # Notifications arrive in order: an update would precede the change of the list.
    await check_list_changes(t, client, user)
    t.equal(updates(), [WATCHED, WATCHED], "no updates after the end of the subscription")


async def check_list_changes(t: Checks, client: Any, user: User, listed: Callable[[str, int], Any] | None = None) -> None:
    triggers = {
        "tools": "test_trigger_tool_change",
        "prompts": "test_trigger_prompt_change",
        "resources": "test_trigger_resource_list_change",
    }
    async with client.watched_lists():
        for kind, trigger in triggers.items():
            method = f"notifications/{kind}/list_changed"
            before = len(user.received(method))
            for count in (1, 2):
                t.ok(not (await client.call(trigger, {})).get("isError"), f"{trigger} succeeds")
                await until(lambda: len(user.received(method)) >= before + count)
                t.equal(len(user.received(method)), before + count, f"the number of {method}")
                if listed:
                    await listed(kind, count)


async def check_enabled_functions(t: Checks, client: Any, user: User, _revision: str) -> None:
    """Checks the lists while functions are enabled and disabled."""
    lists = {
        "tools": (client.tools, "name", "optional_tool"),
        "prompts": (client.prompts, "name", "optional_prompt"),
        "resources": (client.resources, "uri", "test://optional-resource"),
    }

    async def listed(kind: str, count: int) -> None:
        entries, key, name = lists[kind]
        t.equal(name in [entry[key] for entry in await entries()], count == 1, f"{name} in {kind} after {count} changes")

    await check_list_changes(t, client, user, listed)


async def check_cancellation(t: Checks, client: Any, _user: User, _revision: str) -> None:
    async def running() -> str:
        return (await client.call("test_running_calls", {}))["content"][0]["text"]

    t.equal(await running(), "0", "no call is running")
    call = client.start_call("test_cancellation", {})
    await until(call.started.is_set)
    t.ok(call.started.is_set(), "a call starts")
    t.equal(await running(), "1", "the call is running")
    await call.cancel()
    deadline = time.monotonic() + DEADLINE
    while await running() != "0" and time.monotonic() < deadline:
        pass
    t.equal(await running(), "0", "the cancelled call has stopped")


async def check_roots(t: Checks, client: Any, _user: User, _revision: str) -> None:
    t.equal(await listed_roots(client), "1 root: One", "the roots of the client")


async def check_root_changes(t: Checks, client: Any, user: User, _revision: str) -> None:
    [one] = user.roots
    two = {"uri": "file:///interop/two", "name": "Two"}
    for roots, expected in (([one, two], "2 roots: One, Two"), ([], "0 roots: "), ([one], "1 root: One")):
        user.roots = roots
        await client.roots_changed()
        # Over HTTP, the next call may overtake the notification, and the server keeps the roots until then.
        deadline = time.monotonic() + DEADLINE
        while await listed_roots(client) != expected and time.monotonic() < deadline:
            pass
        t.equal(await listed_roots(client), expected, "the roots after a change")


async def listed_roots(client: Any) -> str:
    return (await client.call("test_input_required_result_list_roots", {}))["content"][0]["text"]


async def check_tasks(t: Checks, client: Any, _user: User, _revision: str) -> None:
    done = await client.start_task("slow_compute", {"seconds": 0.1, "label": "A task"})
    t.equal((await client.wait_for_task(done))["content"][0]["text"], "A task took 0.1 s", "the result of a task")
    t.equal(await client.task_status(done), "completed", "the status of a completed task")
    running = await client.start_task("slow_compute", {"seconds": 60})
    t.equal(await client.task_status(running), "working", "the status of a running task")
    listed = await client.task_ids()
    t.ok({done, running} <= set(listed), "the tasks are listed", listed)
    await client.cancel_task(running)
    t.equal(await client.task_status(running), "cancelled", "the status of a cancelled task")


# The checks of each feature, and the revisions that have it. Those of `process-memory` need all requests to reach the same process, because
# a server keeps in its memory which functions are enabled.
FEATURES = {
    "binary": ("2024-11-05", "2026-07-28", check_binary),
    "progress": ("2024-11-05", "2026-07-28", check_progress),
    "logging": ("2024-11-05", "2026-07-28", check_logging),
    "immediate-log-level": ("2024-11-05", "2026-07-28", check_immediate_level),
    "subscriptions": ("2024-11-05", "2026-07-28", check_subscriptions),
    "process-memory": ("2024-11-05", "2026-07-28", check_enabled_functions),
    "cancellation": ("2024-11-05", "2026-07-28", check_cancellation),
    "roots": ("2024-11-05", "2026-07-28", check_roots),
    "root-changes": ("2024-11-05", "2025-11-25", check_root_changes),
    "tasks": ("2025-11-25", "2025-11-25", check_tasks),
    "task-extension": ("2026-07-28", "2026-07-28", check_tasks),
}


class RunningCall:
    """A call that is made in the background. `started` is set on its first progress notification."""

    def __init__(self, call: Callable[[Callable[..., Any]], Any]) -> None:
        self.started = asyncio.Event()
        self.task = asyncio.ensure_future(call(self._on_progress))

    async def _on_progress(self, *_update: Any) -> None:
        self.started.set()

    async def cancel(self) -> None:
        """Cancels the call by cancelling the Python task that awaits it."""
        self.task.cancel()
        try:
            await self.task
        except asyncio.CancelledError:
            return
        raise AssertionError("the cancelled call succeeded")


async def until(condition: Callable[[], bool]) -> None:
    """Waits until a condition is true, but no longer than the deadline: the check that follows describes what is missing."""
    deadline = time.monotonic() + DEADLINE
    while not condition() and time.monotonic() < deadline:
        await asyncio.sleep(0.002)
