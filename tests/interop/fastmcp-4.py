"""Adapter for FastMCP's client.

It negotiates the revision like the Python SDK 2.x, and converts structured content to objects according to the tool's schema. Over
HTTP, it has a separate transport for 2024-11-05.
"""

from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any
from urllib.parse import urljoin

import mcp.client.session
import mcp_types as types
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from mcp import MCPError

from common import Failure, Server, main, to_json


class Adapter:
    def __init__(self, client: Client):
        self.client = client

    def negotiated(self):
        return self.client.protocol_version

    async def ping(self):
        assert await request(self.client.ping())

    async def tools(self):
        return [to_json(tool) for tool in await request(self.client.list_tools())]

    async def call(self, name, arguments):
        result = await request(self.client.call_tool(name, arguments, raise_on_error=False))
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

    return {"elicitation_handler": elicit, "sampling_handler": sample}


def transport_to(server: Server, revision: str):
    if not server.url:
        return StdioTransport(server.command, server.args, keep_alive=False)
    if revision == "2024-11-05":
        return SSETransport(urljoin(server.url, "/sse"))
    return StreamableHttpTransport(server.url)


revisions = ["auto", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
main("fastmcp-4", version("fastmcp-slim"), revisions, connect)
