"""Adapter for the Python SDK 1.x.

The SDK always requests its newest revision, so the module's constant is replaced to request an older one. Over HTTP, it has a
separate transport for 2024-11-05.
"""

from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any
from urllib.parse import urljoin

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from common import Failure, Server, main, to_json


class Adapter:
    def __init__(self, session: ClientSession, initialized: types.InitializeResult):
        self.session = session
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
        yield Adapter(session, await session.initialize())


def callbacks(user: Any) -> dict[str, Any]:
    if user is None:
        return {}

    async def elicit(_context, params):
        return types.ElicitResult.model_validate(user.elicit(to_json(params)))

    async def sample(_context, params):
        return types.CreateMessageResult.model_validate(user.sample(to_json(params)))

    return {"elicitation_callback": elicit, "sampling_callback": sample}


def transport_to(server: Server, revision: str):
    if not server.url:
        return stdio_client(StdioServerParameters(command=server.command, args=server.args))
    if revision == "2024-11-05":
        return sse_client(urljoin(server.url, "/sse"))
    return streamable_http_client(server.url)


main("python-1", version("mcp"), ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"], connect)
