"""mcp-use: its client with the adapter for LangChain, in the format of OpenAI, and calls as its agent makes them."""

from mcp_use import MCPClient
from mcp_use.agents.adapters.langchain_adapter import LangChainAdapter

from common import main, text_of
from langgraph_tools import LangGraphClient


class McpUse(LangGraphClient):
    async def __aenter__(self):
        server = {"url": self.url} if self.url else {"command": self.command[0], "args": self.command[1:]}
        self.mcp = MCPClient({"mcpServers": {"server": server}}, **self.elicitation)
        self.session = await self.mcp.create_session("server")
        adapter = LangChainAdapter()
        await adapter.create_all(self.mcp)
        self.use(adapter.tools)
        return self

    async def __aexit__(self, *error):
        await self.mcp.close_all_sessions()

    async def resources(self):
        return [str(resource.uri) for resource in await self.session.list_resources()]

    async def read(self, uri):
        return text_of(await self.session.read_resource(uri))

    async def prompts(self):
        return [prompt.name for prompt in await self.session.list_prompts()]

    async def prompt(self, name, arguments):
        return text_of(await self.session.get_prompt(name, arguments))


main("mcp-use", "mcp-use", McpUse)
