"""Clients of the Python SDKs that have credentials, and never send their user to the authorization server: a machine with a key
and, with the SDK 2.x, an application with identity assertions.

    credentials.py {"url": …, "user": …, "issuer": …, "robot": …}
"""

import asyncio
import json
import sys
from importlib.machinery import SourceFileLoader
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from mcp.client.auth.extensions.client_credentials import PrivateKeyJWTOAuthProvider, SignedJWTParameters

from common import Storage, post

target = json.loads(sys.argv[1])
MAJOR = version("mcp").split(".")[0]
adapter = SourceFileLoader("adapter", str(Path(__file__).with_name(f"python-{MAJOR}.py"))).load_module()
SERVER = f"http://{urlsplit(target['url']).netloc}"


async def check(what, provider):
    async with adapter.connect(target["url"], "2025-11-25", provider) as call:
        await call("list_notes", {})
        await call("add_note", {"text": f"from {what}"})
        assert f"from {what}" in await call("list_notes", {})
    print(f"python-{MAJOR} {version('mcp')}: {what}", flush=True)


def identity_assertion(id_token):
    async def assertion(audience, resource):
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "subject_token": id_token,
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "audience": audience,
            "resource": resource,
            "client_id": "agent",
            "client_secret": "a secret of the agent at the provider",
        }
        return json.loads(await asyncio.to_thread(post, f"{target['issuer']}/token", urlencode(form)))["access_token"]

    return assertion


async def main():
    key = {"issuer": "robot", "subject": "robot", "signing_key": target["robot"], "signing_algorithm": "ES256"}
    signer = SignedJWTParameters(**key).create_assertion_provider()
    robot = PrivateKeyJWTOAuthProvider(target["url"], Storage(), "robot", signer, issuer=SERVER)
    await check("a machine with a key", robot)
    if MAJOR != "1":
        from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider

        assertion = identity_assertion(post(f"{target['user']}?sso", ""))
        agent = IdentityAssertionOAuthProvider(target["url"], Storage(), "agent", "a secret of the agent", SERVER, assertion)
        await check("an application with identity assertions", agent)


asyncio.run(main())
