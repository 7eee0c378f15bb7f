"""Adapter for the Python SDK 2.x.

`2026-07-28` selects the revision without a probe, and `auto` probes for it. The handshake always requests the newest older revision,
so the module's constant is replaced to request another. Over HTTP, the SDK has a separate transport for 2024-11-05.
"""

import warnings
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any
from urllib.parse import urljoin

import mcp.client.session
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client

from common import Failure, Server, main, to_json


class Adapter:
    def __init__(self, client: Client):
        self.client = client

    def negotiated(self):
        return self.client.protocol_version

    async def ping(self):
        with warnings.catch_warnings(action="ignore"):  # deprecated, because the newest revision has no ping
            await request(self.client.send_ping())

    async def tools(self):
        return (await request(self.client.list_tools()))["tools"]

    async def call(self, name, arguments):
        return await request(self.client.call_tool(name, arguments))

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

    return {"elicitation_callback": elicit, "sampling_callback": sample}


def transport_to(server: Server, revision: str):
    if not server.url:
        return StdioServerParameters(command=server.command, args=server.args)
    return sse_client(urljoin(server.url, "/sse")) if revision == "2024-11-05" else server.url


main("python-2", version("mcp"), ["auto", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"], connect)
