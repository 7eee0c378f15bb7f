"""Adapter for the Python SDK 1.x.

The SDK always requests its newest revision, so the module's constant is replaced to request an older one. Over HTTP, it has a
separate transport for 2024-11-05.
"""

import warnings
from contextlib import asynccontextmanager, nullcontext
from importlib.metadata import version
from typing import Any
from urllib.parse import urljoin

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from common import Failure, Server, main, to_json
from everything import RunningCall


class Adapter:
    def __init__(self, session: ClientSession, initialized: types.InitializeResult, user: Any):
        self.session = session
        self.user = user
        with warnings.catch_warnings(action="ignore"):  # deprecated, because the newest revision has a different extension for tasks
            self.tasks = session.experimental
        self.initialized = initialized

    def negotiated(self):
        return self.initialized.protocolVersion

    async def ping(self):
        await request(self.session.send_ping())

    async def tools(self):
        return (await request(self.session.list_tools()))["tools"]

    async def call(self, name, arguments):
        return await request(self.session.call_tool(name, arguments))

    async def resources(self):
        return (await request(self.session.list_resources()))["resources"]

    async def templates(self):
        return (await request(self.session.list_resource_templates()))["resourceTemplates"]

    async def read(self, uri):
        return (await request(self.session.read_resource(types.AnyUrl(uri))))["contents"]

    async def prompts(self):
        return (await request(self.session.list_prompts()))["prompts"]

    async def prompt(self, name, arguments):
        return await request(self.session.get_prompt(name, arguments))

    async def complete(self, ref, argument, value):
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        result = await request(self.session.complete(kind.model_validate(ref), {"name": argument, "value": value}))
        return result["completion"]["values"]

    async def call_with_progress(self, name, arguments):
        updates = []

        async def on_progress(*update):
            updates.append(update)

        result = await request(self.session.call_tool(name, arguments, progress_callback=on_progress))
        return result, updates

    async def set_level(self, level):
        await request(self.session.set_logging_level(level))

    @asynccontextmanager
    async def subscribed(self, uri):
        await request(self.session.subscribe_resource(types.AnyUrl(uri)))
        yield
        await request(self.session.unsubscribe_resource(types.AnyUrl(uri)))

    def watched_lists(self):
        return nullcontext()

    def start_call(self, name, arguments):
        def call(on_progress):
            return self.session.call_tool(name, arguments, progress_callback=on_progress)

        return CancellableCall(self.session, self.user, call)

    async def roots_changed(self):
        await self.session.send_roots_list_changed()

    async def start_task(self, name, arguments):
        return (await request(self.tasks.call_tool_as_task(name, arguments)))["task"]["taskId"]

    async def wait_for_task(self, task):
        async for _status in self.tasks.poll_task(task):
            pass
        return await request(self.tasks.get_task_result(task, types.CallToolResult))

    async def task_status(self, task):
        return (await request(self.tasks.get_task(task)))["status"]

    async def task_ids(self):
        return [task["taskId"] for task in (await request(self.tasks.list_tasks()))["tasks"]]

    async def cancel_task(self, task):
        await request(self.tasks.cancel_task(task))


class CancellableCall(RunningCall):
    """A call that is cancelled with a notification, which the SDK does not send itself. The progress token is the request's id."""

    def __init__(self, session, user, call):
        super().__init__(call)
        self.session, self.user = session, user

    async def cancel(self):
        request_id = self.user.received("notifications/progress")[-1]["progressToken"]
        params = types.CancelledNotificationParams(requestId=request_id, reason="the user cancelled the call")
        notification = types.CancelledNotification(method="notifications/cancelled", params=params)
        await self.session.send_notification(types.ClientNotification(notification))
        await super().cancel()


async def request(awaitable):
    """Awaits a response and converts the error of the SDK to a `Failure`."""
    try:
        return to_json(await awaitable)
    except McpError as error:
        raise Failure(error.error.code, error.error.message) from error


@asynccontextmanager
async def connect(server: Server, revision: str, user: Any):
    types.LATEST_PROTOCOL_VERSION = revision
    async with transport_to(server, revision) as (read, write, *_), ClientSession(read, write, **callbacks(user)) as session:
        yield Adapter(session, await session.initialize(), user)


def callbacks(user: Any) -> dict[str, Any]:
    if user is None:
        return {}

    async def elicit(_context, params):
        return types.ElicitResult.model_validate(user.elicit(to_json(params)))

    async def sample(_context, params):
        return types.CreateMessageResult.model_validate(user.sample(to_json(params)))

    async def roots(_context):
        return types.ListRootsResult.model_validate({"roots": user.roots})

    async def receive(message):
        if isinstance(message, Exception):
            raise message
        if isinstance(message, types.ServerNotification):
            user.notifications.append(to_json(message))

    asking = {"elicitation_callback": elicit, "sampling_callback": sample}
    return {**asking, "list_roots_callback": roots, "message_handler": receive} if hasattr(user, "roots") else asking


def transport_to(server: Server, revision: str):
    if not server.url:
        return stdio_client(StdioServerParameters(command=server.command, args=server.args))
    if revision == "2024-11-05":
        return sse_client(urljoin(server.url, "/sse"))
    return streamable_http_client(server.url)


main("python-1", version("mcp"), ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"], connect)
