"""Adapter for the Python SDK 2.x."""

from contextlib import asynccontextmanager
from importlib.metadata import version

import httpx2
import mcp.client.session
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult
from mcp.client.streamable_http import streamable_http_client

from common import main


@asynccontextmanager
async def connect(url, revision, provider):
    mode = revision if revision >= "2026-07-28" else "legacy"
    if mode == "legacy":
        mcp.client.session.LATEST_HANDSHAKE_VERSION = revision
    async with (
        httpx2.AsyncClient(auth=provider, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):

        async def call(name, arguments):
            result = await client.call_tool(name, arguments)
            assert not result.is_error, result
            return result.model_dump_json()

        yield call


if __name__ == "__main__":
    main("python-2", version("mcp"), ["2026-07-28", "2025-11-25", "2025-06-18"], lambda response: AuthorizationCodeResult(**response), connect)
