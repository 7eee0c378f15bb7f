"""google-genai: automatic function calling with an MCP session. The model is scripted: it calls one function, then ends."""

import json
from contextlib import AsyncExitStack

import httpx2 as httpx
from google import genai
from google.genai import types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from common import Client, main, text_of
from sdk import open_session, stdio_parameters


class GoogleGenAi(Client):
    async def __aenter__(self):
        self.stack = AsyncExitStack()
        transport = streamable_http_client(self.url) if self.url else stdio_client(stdio_parameters(self))
        self.session = await open_session(self.stack, transport)
        http = httpx.AsyncClient(transport=httpx.MockTransport(self.generate))
        self.genai = genai.Client(api_key="none", http_options=types.HttpOptions(httpx_async_client=http))
        self.function_call = None
        return self

    async def __aexit__(self, *error):
        await self.stack.__aexit__(*error)

    def generate(self, request):
        self.body = json.loads(request.content)
        part = {"text": "Done."}
        if self.function_call:
            part, self.function_call = {"functionCall": self.function_call}, None
        return httpx.Response(200, json={"candidates": [{"content": {"role": "model", "parts": [part]}}]})

    async def run(self):
        config = {"tools": [self.session]}  # a `GenerateContentConfig` is copied deeply, which fails for sessions
        return await self.genai.aio.models.generate_content(model="gemini-2.5-flash", contents="Go.", config=config)

    async def tools(self):
        await self.run()
        declarations = [declaration for tool in self.body["tools"] for declaration in tool["functionDeclarations"]]
        return {d["name"]: camel_case(d.get("parameters", d.get("parametersJsonSchema"))) for d in declarations}

    async def call(self, name, arguments):
        self.function_call = {"name": name, "args": arguments}
        await self.run()
        parts = self.body["contents"][-1]["parts"]
        return text_of(next(part["functionResponse"]["response"] for part in parts if "functionResponse" in part))


def camel_case(schema):
    """The API accepts both spellings of its keywords, and the SDK writes both."""
    if isinstance(schema, list):
        return [camel_case(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {KEYWORDS.get(key, key): camel_case(value) for key, value in schema.items()}


KEYWORDS = {
    "any_of": "anyOf", "min_items": "minItems", "max_items": "maxItems", "min_length": "minLength", "max_length": "maxLength",
    "additional_properties": "additionalProperties", "property_ordering": "propertyOrdering", "prefix_items": "prefixItems",
}

main("google-genai", "google-genai", GoogleGenAi)
