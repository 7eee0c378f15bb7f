"""The Python SDK 1.x. It always asks for its newest revision; the module's constant makes it ask for an older one.
Over HTTP, 2024-11-05 has its own transport."""

from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any
from urllib.parse import urljoin

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from common import Failure, Server, main, plain


class Adapter:
    def __init__(self, session: ClientSession, initialized: types.InitializeResult):
        self.session = session
        self.initialized = initialized

    def negotiated(self):
        return self.initialized.protocolVersion

    async def ping(self):
        await answer(self.session.send_ping())

    async def tools(self):
        return (await answer(self.session.list_tools()))["tools"]

    async def call(self, name, arguments):
        return await answer(self.session.call_tool(name, arguments))

    async def resources(self):
        return (await answer(self.session.list_resources()))["resources"]

    async def templates(self):
        return (await answer(self.session.list_resource_templates()))["resourceTemplates"]

    async def read(self, uri):
        return (await answer(self.session.read_resource(types.AnyUrl(uri))))["contents"]

    async def prompts(self):
        return (await answer(self.session.list_prompts()))["prompts"]

    async def prompt(self, name, arguments):
        return await answer(self.session.get_prompt(name, arguments))

    async def complete(self, ref, argument, value):
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        result = await answer(self.session.complete(kind.model_validate(ref), {"name": argument, "value": value}))
        return result["completion"]["values"]


async def answer(awaitable):
    try:
        return plain(await awaitable)
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
        return types.ElicitResult.model_validate(user.elicit(plain(params)))

    async def sample(_context, params):
        return types.CreateMessageResult.model_validate(user.sample(plain(params)))

    return {"elicitation_callback": elicit, "sampling_callback": sample}


def transport_to(server: Server, revision: str):
    if not server.url:
        return stdio_client(StdioServerParameters(command=server.command, args=server.args))
    if revision == "2024-11-05":
        return sse_client(urljoin(server.url, "/sse"))
    return streamable_http_client(server.url)


main("python-1", version("mcp"), ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"], connect)
