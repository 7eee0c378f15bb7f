"""smolagents: tools in the format of OpenAI, and calls as `ToolCallingAgent` makes them, which shows the model only its own errors."""

import asyncio

from smolagents import MCPClient, Model, ToolCallingAgent
from smolagents.models import get_tool_json_schema
from smolagents.utils import AgentError

from common import Client, Unsupported, main, text_of
from sdk import stdio_parameters


class SmolAgents(Client):
    async def __aenter__(self):
        server = {"url": self.url, "transport": "streamable-http"} if self.url else stdio_parameters(self)
        self.mcp = await asyncio.to_thread(MCPClient, server, structured_output=False)
        self.agent = ToolCallingAgent(tools=self.mcp.get_tools(), model=Model(), verbosity_level=0)
        return self

    async def __aexit__(self, *error):
        await asyncio.to_thread(self.mcp.disconnect)

    async def tools(self):
        schemas = [get_tool_json_schema(tool)["function"] for tool in self.mcp.get_tools()]
        return {schema["name"]: schema["parameters"] for schema in schemas}

    async def call(self, name, arguments):
        if name not in self.agent.tools:
            raise Unsupported
        try:
            return text_of(await asyncio.to_thread(self.agent.execute_tool_call, name, arguments))
        except AgentError as error:
            return str(error)


main("smolagents", "smolagents", SmolAgents)
