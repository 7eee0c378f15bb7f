"""strands-agents: tool specifications as models receive them, and calls as agents make them."""

import asyncio

from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult
from strands.tools.mcp import MCPClient

from common import Client, main, text_of


class Strands(Client):
    answers_forms = True

    async def __aenter__(self):
        def transport():
            if self.url:
                return streamable_http_client(self.url)
            return stdio_client(StdioServerParameters(command=self.command[0], args=self.command[1:]))

        self.mcp = MCPClient(transport, elicitation_callback=self.elicit if self.answer else None)
        await asyncio.to_thread(self.mcp.start)
        return self

    async def __aexit__(self, *error):
        await asyncio.to_thread(self.mcp.stop, None, None, None)

    async def elicit(self, _context, params):
        return ElicitResult(action="accept", content=self.answer(getattr(params, "requested_schema", None) or params.requestedSchema))

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
