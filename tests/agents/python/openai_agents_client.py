"""openai-agents: tools with strict schemas, as `Agent(mcp_config={"convert_schemas_to_strict": True})` converts them."""

import json

from agents import Agent, RunContextWrapper, set_tracing_disabled
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp, MCPUtil
from agents.tool_context import ToolContext

from common import Client, Unsupported, main, text_of


class OpenAiAgents(Client):
    async def __aenter__(self):
        if self.url:
            self.server = MCPServerStreamableHttp({"url": self.url})
        else:
            self.server = MCPServerStdio({"command": self.command[0], "args": self.command[1:]})
        await self.server.__aenter__()
        agent = Agent("probe", mcp_servers=[self.server], mcp_config={"convert_schemas_to_strict": True})
        tools = await MCPUtil.get_all_function_tools([self.server], True, RunContextWrapper(None), agent)
        self.function_tools = {tool.name: tool for tool in tools}
        return self

    async def __aexit__(self, *error):
        await self.server.__aexit__(*error)

    async def tools(self):
        # The parameters that the Responses API receives, which names tools that are not strict.
        return {
            name: tool.params_json_schema | ({} if tool.strict_json_schema else {"x-note": "not strict"})
            for name, tool in self.function_tools.items()
        }

    async def call(self, name, arguments):
        if name not in self.function_tools:
            raise Unsupported
        tool, text = self.function_tools[name], json.dumps(arguments)
        context = ToolContext(None, tool_name=name, tool_call_id="1", tool_arguments=text)
        return text_of(await tool.on_invoke_tool(context, text))

    async def resources(self):
        return [str(resource.uri) for resource in (await self.server.list_resources()).resources]

    async def read(self, uri):
        return text_of(await self.server.read_resource(uri))

    async def prompts(self):
        return [prompt.name for prompt in (await self.server.list_prompts()).prompts]

    async def prompt(self, name, arguments):
        return text_of(await self.server.get_prompt(name, arguments))


set_tracing_disabled(True)
main("openai-agents", "openai-agents", OpenAiAgents)
