"""The Python SDK 2.x. `2026-07-28` pins the revision without a probe, `auto` probes for it, and the handshake always asks for the
newest revision but for the module's constant. Over HTTP, 2024-11-05 has its own transport."""

import warnings
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any
from urllib.parse import urljoin

import mcp.client.session
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client

from common import Failure, Server, main, plain


class Adapter:
    def __init__(self, client: Client):
        self.client = client

    def negotiated(self):
        return self.client.protocol_version

    async def ping(self):
        with warnings.catch_warnings(action="ignore"):  # deprecated, since the newest revision has none
            await answer(self.client.send_ping())

    async def tools(self):
        return (await answer(self.client.list_tools()))["tools"]

    async def call(self, name, arguments):
        return await answer(self.client.call_tool(name, arguments))

    async def resources(self):
        return (await answer(self.client.list_resources()))["resources"]

    async def templates(self):
        return (await answer(self.client.list_resource_templates()))["resourceTemplates"]

    async def read(self, uri):
        return (await answer(self.client.read_resource(uri)))["contents"]

    async def prompts(self):
        return (await answer(self.client.list_prompts()))["prompts"]

    async def prompt(self, name, arguments):
        return await answer(self.client.get_prompt(name, arguments))

    async def complete(self, ref, argument, value):
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        result = await answer(self.client.complete(kind.model_validate(ref), {"name": argument, "value": value}))
        return result["completion"]["values"]


async def answer(awaitable):
    try:
        return plain(await awaitable)
    except MCPError as error:
        raise Failure(error.code, error.message) from error


@asynccontextmanager
async def connect(server: Server, revision: str, user: Any):
    mode = revision if revision >= "2026-07-28" else "legacy"
    if mode == "legacy":
        mcp.client.session.LATEST_HANDSHAKE_VERSION = revision
    async with Client(target(server, revision), mode=mode, **callbacks(user)) as client:
        yield Adapter(client)


def callbacks(user: Any) -> dict[str, Any]:
    """In 2026-07-28 this client gives what they return with the call that it makes again by itself."""
    if user is None:
        return {}

    async def elicit(_context, params):
        return types.ElicitResult.model_validate(user.elicit(plain(params)))

    async def sample(_context, params):
        return types.CreateMessageResult.model_validate(user.sample(plain(params)))

    return {"elicitation_callback": elicit, "sampling_callback": sample}


def target(server: Server, revision: str):
    if not server.url:
        return StdioServerParameters(command=server.command, args=server.args)
    return sse_client(urljoin(server.url, "/sse")) if revision == "2024-11-05" else server.url


main("python-2", version("mcp"), ["auto", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"], connect)
