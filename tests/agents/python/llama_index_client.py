"""llama-index-tools-mcp: tools in the format of OpenAI, and calls as agents make them."""

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

from common import Client, Unsupported, main, text_of


class LlamaIndex(Client):
    async def __aenter__(self):
        self.mcp = BasicMCPClient(self.url) if self.url else BasicMCPClient(self.command[0], args=self.command[1:])
        tools = await McpToolSpec(self.mcp).to_tool_list_async()
        self.function_tools = {tool.metadata.name: tool for tool in tools}
        self.agent = FunctionAgent(tools=tools, llm=MockFunctionCallingLLM())
        return self

    async def __aexit__(self, *error):
        pass

    async def tools(self):
        return {name: tool.metadata.to_openai_tool()["function"]["parameters"] for name, tool in self.function_tools.items()}

    async def call(self, name, arguments):
        if name not in self.function_tools:
            raise Unsupported
        output = await self.agent._call_tool(None, self.function_tools[name], arguments)
        return text_of(output.content)

    async def resources(self):
        return [str(resource.uri) for resource in (await self.mcp.list_resources()).resources]

    async def read(self, uri):
        return text_of(await self.mcp.read_resource(uri))

    async def prompts(self):
        return [prompt.name for prompt in (await self.mcp.list_prompts()).prompts]

    async def prompt(self, name, arguments):
        return text_of([str(message) for message in await self.mcp.get_prompt(name, arguments)])


main("llama-index-tools-mcp", "llama-index-tools-mcp", LlamaIndex)
