"""Adapter for FastMCP's client.

It negotiates the revision like the Python SDK 2.x, and converts structured content to objects according to the tool's schema. Over
HTTP, it has a separate transport for 2024-11-05.
"""

import warnings
from contextlib import asynccontextmanager, nullcontext
from importlib.metadata import version
from typing import Any
from urllib.parse import urljoin

import mcp.client.session
import mcp_types as types
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from mcp import MCPError
from mcp.client.subscriptions import listen

from common import Failure, Server, main, to_json
from everything import RunningCall


class Adapter:
    validates_answers = True  # since 4.2, an answer that violates its schema never reaches the server

    def __init__(self, client: Client):
        self.client = client
        self.level = None

    def negotiated(self):
        return self.client.protocol_version

    async def ping(self):
        assert await request(self.client.ping())

    async def tools(self):
        return [to_json(tool) for tool in await request(self.client.list_tools())]

    async def call(self, name, arguments, on_progress=None):
        call = self.client.call_tool(name, arguments, raise_on_error=False, progress_handler=on_progress, meta=self.meta())
        result = await request(call)
        assert result.is_error or (result.data is None) == (result.structured_content is None), result
        response = {"isError": result.is_error, "content": [to_json(block) for block in result.content]}
        if result.structured_content is not None:
            response["structuredContent"] = result.structured_content
        return response

    async def resources(self):
        return [to_json(resource) for resource in await request(self.client.list_resources())]

    async def templates(self):
        return [to_json(template) for template in await request(self.client.list_resource_templates())]

    async def read(self, uri):
        return [to_json(contents) for contents in await request(self.client.read_resource(uri))]

    async def prompts(self):
        return [to_json(prompt) for prompt in await request(self.client.list_prompts())]

    async def prompt(self, name, arguments):
        return to_json(await request(self.client.get_prompt(name, arguments)))

    async def complete(self, ref, argument, value):
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        completion = await request(self.client.complete(kind.model_validate(ref), {"name": argument, "value": value}))
        return completion.values

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
            async with listen(self.client.session, resource_subscriptions=[uri]):
                yield
        else:
            with warnings.catch_warnings(action="ignore"):  # deprecated
                await request(self.client.session.subscribe_resource(uri))
                yield
                await request(self.client.session.unsubscribe_resource(uri))

    def watched_lists(self):
        if not self.is_modern():
            return nullcontext()
        return listen(self.client.session, tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True)

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
        return await awaitable
    except MCPError as error:
        raise Failure(error.code, error.message) from error


@asynccontextmanager
async def connect(server: Server, revision: str, user: Any):
    mode = revision if revision >= "2026-07-28" else "legacy"
    if mode == "legacy":
        mcp.client.session.LATEST_HANDSHAKE_VERSION = revision
    async with Client(transport_to(server, revision), mode=mode, **handlers(user)) as client:
        yield Adapter(client)


def handlers(user: Any) -> dict[str, Any]:
    if user is None:
        return {}

    async def elicit(_message, _response_type, params, _context):
        return types.ElicitResult.model_validate(user.elicit(to_json(params)))

    async def sample(_messages, params, _context):
        return types.CreateMessageResult.model_validate(user.sample(to_json(params)))

    async def roots(_context):
        return [types.Root.model_validate(root) for root in user.roots]

    async def receive(message):
        if isinstance(message, Exception):
            raise message
        user.notifications.append(to_json(message))

    asking = {"elicitation_handler": elicit, "sampling_handler": sample}
    return {**asking, "roots": roots, "message_handler": receive, "log_handler": ignore} if hasattr(user, "roots") else asking


async def ignore(_message):
    """Replaces the default handler, which writes to stderr. The message handler receives the messages, too."""


def transport_to(server: Server, revision: str):
    if not server.url:
        return StdioTransport(server.command, server.args, keep_alive=False)
    if revision == "2024-11-05":
        return SSETransport(urljoin(server.url, "/sse"))
    return StreamableHttpTransport(server.url)


revisions = ["auto", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
main("fastmcp-4", version("fastmcp-slim"), revisions, connect)
