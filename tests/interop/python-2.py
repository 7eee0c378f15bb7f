"""Adapter for the Python SDK 2.x.

`2026-07-28` selects the revision without a probe, and `auto` probes for it. The handshake always requests the newest older revision,
so the module's constant is replaced to request another. Over HTTP, the SDK has a separate transport for 2024-11-05.
"""

import warnings
from contextlib import asynccontextmanager, nullcontext
from importlib.metadata import version
from typing import Any
from urllib.parse import urljoin

import mcp.client.session
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client

from common import Failure, Server, main, to_json
from everything import RunningCall


class Adapter:
    def __init__(self, client: Client):
        self.client = client
        self.level = None

    def negotiated(self):
        return self.client.protocol_version

    async def ping(self):
        with warnings.catch_warnings(action="ignore"):  # deprecated, because the newest revision has no ping
            await request(self.client.send_ping())

    async def tools(self):
        return (await request(self.client.list_tools()))["tools"]

    async def call(self, name, arguments, on_progress=None):
        return await request(self.client.call_tool(name, arguments, progress_callback=on_progress, meta=self.meta()))

    async def resources(self):
        return (await request(self.client.list_resources()))["resources"]

    async def templates(self):
        return (await request(self.client.list_resource_templates()))["resourceTemplates"]

    async def read(self, uri):
        return (await request(self.client.read_resource(uri)))["contents"]

    async def prompts(self):
        return (await request(self.client.list_prompts()))["prompts"]

    async def prompt(self, name, arguments):
        return await request(self.client.get_prompt(name, arguments))

    async def complete(self, ref, argument, value):
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        result = await request(self.client.complete(kind.model_validate(ref), {"name": argument, "value": value}))
        return result["completion"]["values"]

    async def call_with_progress(self, name, arguments):
        updates = []

        async def on_progress(*update):
            updates.append(update)

        return await self.call(name, arguments, on_progress), updates

    async def set_level(self, level):
        if self.is_modern():
            self.level = level  # each request has the level
        else:
            with warnings.catch_warnings(action="ignore"):  # deprecated
                await request(self.client.set_logging_level(level))

    @asynccontextmanager
    async def subscribed(self, uri):
        if self.is_modern():
            async with self.client.listen(resource_subscriptions=[uri]):
                yield
        else:
            with warnings.catch_warnings(action="ignore"):  # deprecated
                await request(self.client.subscribe_resource(uri))
                yield
                await request(self.client.unsubscribe_resource(uri))

    def watched_lists(self):
        if not self.is_modern():
            return nullcontext()
        return self.client.listen(tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True)

    def start_call(self, name, arguments):
        return RunningCall(lambda on_progress: self.call(name, arguments, on_progress))

    async def roots_changed(self):
        with warnings.catch_warnings(action="ignore"):  # deprecated
            await self.client.send_roots_list_changed()

    def is_modern(self):
        return self.negotiated() >= "2026-07-28"

    def meta(self):
        return {"io.modelcontextprotocol/logLevel": self.level} if self.level else None


async def request(awaitable):
    """Awaits a response and converts the error of the SDK to a `Failure`."""
    try:
        return to_json(await awaitable)
    except MCPError as error:
        raise Failure(error.code, error.message) from error


@asynccontextmanager
async def connect(server: Server, revision: str, user: Any):
    mode = revision if revision >= "2026-07-28" else "legacy"
    if mode == "legacy":
        mcp.client.session.LATEST_HANDSHAKE_VERSION = revision
    async with Client(transport_to(server, revision), mode=mode, **callbacks(user)) as client:
        yield Adapter(client)


def callbacks(user: Any) -> dict[str, Any]:
    """Returns the callbacks for a user. In 2026-07-28, the client itself retries the call with the values that they return."""
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
        user.notifications.append(to_json(message))

    asking = {"elicitation_callback": elicit, "sampling_callback": sample}
    return {**asking, "list_roots_callback": roots, "message_handler": receive} if hasattr(user, "roots") else asking


def transport_to(server: Server, revision: str):
    if not server.url:
        return StdioServerParameters(command=server.command, args=server.args)
    return sse_client(urljoin(server.url, "/sse")) if revision == "2024-11-05" else server.url


main("python-2", version("mcp"), ["auto", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"], connect)
