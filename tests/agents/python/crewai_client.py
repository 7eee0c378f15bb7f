"""crewai-tools: tools in the format of OpenAI, and calls as agents with native function calling make them."""

import asyncio
import json
from types import SimpleNamespace

from crewai.utilities.agent_utils import convert_tools_to_openai_schema, execute_single_native_tool_call
from crewai_tools import MCPServerAdapter

from common import Client, Unsupported, main, text_of
from sdk import stdio_parameters


class CrewAi(Client):
    async def __aenter__(self):
        server = {"url": self.url, "transport": "streamable-http"} if self.url else stdio_parameters(self)
        self.adapter = await asyncio.to_thread(MCPServerAdapter, server)
        self.converted = list(self.adapter.tools)
        return self

    async def __aexit__(self, *error):
        await asyncio.to_thread(self.adapter.stop)

    async def tools(self):
        schemas, *_ = convert_tools_to_openai_schema(self.converted)
        return {schema["function"]["name"]: schema["function"]["parameters"] for schema in schemas}

    async def call(self, name, arguments):
        _, functions, *_ = convert_tools_to_openai_schema(self.converted)
        if name not in functions:
            raise Unsupported
        call = {"id": "1", "function": {"name": name, "arguments": json.dumps(arguments)}}
        result = await asyncio.to_thread(
            execute_single_native_tool_call,
            call,
            available_functions=functions,
            original_tools=self.converted,
            structured_tools=None,
            tools_handler=None,
            agent=None,
            task=None,
            crew=None,
            event_source=SimpleNamespace(),
        )
        return text_of(result.result)


main("crewai-tools", "crewai-tools", CrewAi)
