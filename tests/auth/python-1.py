"""Adapter for the Python SDK 1.x."""

from contextlib import asynccontextmanager
from importlib.metadata import version

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from common import main


@asynccontextmanager
async def connect(url, _, provider):
    async with (
        httpx.AsyncClient(auth=provider, timeout=60) as http,
        streamable_http_client(url, http_client=http) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()

        async def call(name, arguments):
            result = await session.call_tool(name, arguments)
            assert not result.isError, result
            return result.model_dump_json()

        yield call


if __name__ == "__main__":
    main("python-1", version("mcp"), ["2025-11-25"], lambda response: (response["code"], response.get("state")), connect)
