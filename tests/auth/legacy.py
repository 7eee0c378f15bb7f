"""The Python SDK 1.x as a client of 2025-03-26: it does not know the metadata of resources, and asks for this revision. It logs in,
calls, refreshes its tokens, and is revoked.

    legacy.py {"url": …, "user": …}
"""

import asyncio
import json
import sys
import time
import urllib.request
from importlib.metadata import version
from urllib.parse import urlencode, urljoin

import httpx
import mcp.client.session
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

from common import REDIRECT, Storage, User

REVISION = "2025-03-26"
mcp.client.session.types.LATEST_PROTOCOL_VERSION = REVISION


class Transport(httpx.AsyncHTTPTransport):
    """Removes what clients of the revision do not know."""

    async def handle_async_request(self, request):
        if "/.well-known/oauth-protected-resource" in request.url.path:
            return httpx.Response(404, request=request)
        response = await super().handle_async_request(request)
        if "www-authenticate" in response.headers:
            response.headers["www-authenticate"] = "Bearer"
        return response


async def main() -> None:
    target = json.loads(sys.argv[1])
    user, storage = User(target["user"]), Storage()

    async def callback():
        return user.response["code"], user.response.get("state")

    metadata = OAuthClientMetadata(
        client_name="A client of 2025-03-26",
        redirect_uris=[REDIRECT],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    provider = OAuthClientProvider(target["url"], metadata, storage, redirect_handler=user.open, callback_handler=callback)
    async with (
        httpx.AsyncClient(auth=provider, timeout=60, transport=Transport()) as http,
        streamable_http_client(target["url"], http_client=http) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        initialized = await session.initialize()
        assert initialized.protocolVersion == REVISION, initialized
        assert len(user.requests) == 1 and "resource" not in user.requests[0], user.requests

        async def call():
            result = await session.call_tool("list_notes", {})
            assert not result.isError, result

        await call()
        before = storage.tokens
        provider.context.token_expiry_time = time.time() - 1
        await call()
        assert storage.tokens.access_token != before.access_token, "the token was not refreshed"
        assert storage.tokens.refresh_token != before.refresh_token
        assert len(user.requests) == 1, user.requests

        form = urlencode({"client_id": storage.client.client_id, "token": storage.tokens.refresh_token}).encode()
        with urllib.request.urlopen(urljoin(target["url"], "/revoke"), form, timeout=60) as response:
            assert response.status == 200
        await call()
        assert len(user.requests) == 2, "the user has to log in again"
    print(f"python-1 {version('mcp')} as {REVISION}: authorized, refreshed, revoked", flush=True)


asyncio.run(main())
