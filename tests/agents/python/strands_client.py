"""strands-agents: tool specifications as models receive them, and calls as agents make them."""

import asyncio

from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from strands.tools.mcp import MCPClient

from common import main, text_of
from sdk import AnsweringClient, stdio_parameters


class Strands(AnsweringClient):
    async def __aenter__(self):
        def transport():
            return streamable_http_client(self.url) if self.url else stdio_client(stdio_parameters(self))

        self.mcp = MCPClient(transport, **self.elicitation)
        await asyncio.to_thread(self.mcp.start)
        return self

    async def __aexit__(self, *error):
        await asyncio.to_thread(self.mcp.stop, None, None, None)

    async def tools(self):
        tools = await asyncio.to_thread(self.mcp.list_tools_sync)
        return {tool.tool_name: tool.tool_spec["inputSchema"]["json"] for tool in tools}

    async def call(self, name, arguments):
        return text_of(await self.mcp.call_tool_async("1", name, arguments))

    async def resources(self):
        return [str(resource.uri) for resource in (await asyncio.to_thread(self.mcp.list_resources_sync)).resources]

    async def read(self, uri):
        return text_of(await asyncio.to_thread(self.mcp.read_resource_sync, uri))

    async def prompts(self):
        return [prompt.name for prompt in (await asyncio.to_thread(self.mcp.list_prompts_sync)).prompts]

    async def prompt(self, name, arguments):
        return text_of(await asyncio.to_thread(self.mcp.get_prompt_sync, name, arguments))


main("strands-agents", "strands-agents", Strands)
