"""What the adapters of the two Python SDKs share: the storage and the user that the SDKs ask, and the checks.

    ADAPTER {"url": …, "user": …, "clients": …}

`user` opens authorization requests in a browser (see user.mjs). `clients` is the base of the URLs of clients with a metadata
document, for which the authorization server knows the answer, or empty if no client has one.
"""

import asyncio
import json
import sys
import urllib.request
from contextlib import AbstractAsyncContextManager
from typing import Any, Callable
from urllib.parse import parse_qs, quote, urlsplit

from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import OAuthClientMetadata

REDIRECT = "http://127.0.0.1:65000/callback"  # nobody listens there, since the user passes the redirection on


class Storage:
    """The registration and the tokens of one client, in memory."""

    def __init__(self):
        self.tokens = None
        self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class User:
    """Opens authorization requests in a browser, and keeps them and the last response."""

    def __init__(self, url: str):
        self.url = url
        self.requests = []
        self.response = {}

    async def open(self, url: str) -> None:
        self.requests.append(parameters(url))
        redirected = await asyncio.to_thread(post, self.url, url)
        self.response = parameters(redirected)
        assert "error" not in self.response, redirected


def parameters(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def scopes(request: dict[str, str]) -> list[str]:
    return [scope for scope in request["scope"].split(" ") if scope.startswith("notes:")]


def post(url: str, body: str) -> str:
    with urllib.request.urlopen(url, body.encode(), timeout=60) as response:
        return response.read().decode()


def main(
    name: str,
    version: str,
    revisions: list[str],
    to_result: Callable[[dict[str, str]], Any],
    connect: Callable[[str, str, OAuthClientProvider], AbstractAsyncContextManager],
) -> None:
    """Runs the checks with each revision, first with a dynamically registered client, then with one that has a metadata document.

    `to_result` converts an authorization response for the SDK, and `connect` returns a function that calls a tool.
    """
    target = json.loads(sys.argv[1])
    for revision in revisions:
        documents = [f"{target['clients']}client?redirect={quote(REDIRECT, safe='')}"] if target["clients"] else []
        for document in (None, *documents):
            asyncio.run(check(name, target, revision, document, to_result, connect))
            way = "metadata document" if document else "dynamic registration"
            print(f"{name} {version}: {revision}, {way}: authorized, stepped up", flush=True)


async def check(name, target, revision, document, to_result, connect):
    user = User(target["user"])
    storage = Storage()

    async def callback():
        return to_result(user.response)

    metadata = OAuthClientMetadata(
        client_name="A Python client",
        redirect_uris=[REDIRECT],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
        application_type="native",
    )
    provider = OAuthClientProvider(
        target["url"], metadata, storage, redirect_handler=user.open, callback_handler=callback, client_metadata_url=document
    )
    async with connect(target["url"], revision, provider) as call:
        await call("list_notes", {})
        assert len(user.requests) == 1, user.requests
        assert scopes(user.requests[0]) == ["notes:read"], user.requests
        assert user.requests[0]["resource"] == target["url"], user.requests
        assert (storage.client.client_id == document) == (document is not None), storage.client

        await call("add_note", {"text": f"from {name}"})
        assert len(user.requests) == 2, user.requests
        assert "notes:write" in scopes(user.requests[1]), user.requests

        notes = await call("list_notes", {})
        assert f"from {name}" in notes, notes
