"""mcp-use: its client with the adapter for LangChain, in the format of OpenAI, and calls as its agent makes them."""

from langchain_core.messages import AIMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from mcp.types import ElicitResult
from mcp_use import MCPClient
from mcp_use.agents.adapters.langchain_adapter import LangChainAdapter

from common import Client, Unsupported, main, text_of


class McpUse(Client):
    answers_forms = True

    async def __aenter__(self):
        server = {"url": self.url} if self.url else {"command": self.command[0], "args": self.command[1:]}
        self.mcp = MCPClient({"mcpServers": {"server": server}}, elicitation_callback=self.elicit if self.answer else None)
        self.session = await self.mcp.create_session("server")
        adapter = LangChainAdapter()
        await adapter.create_all(self.mcp)
        self.converted = {tool.name: tool for tool in adapter.tools}
        self.graph = self.agent_graph()
        return self

    async def __aexit__(self, *error):
        await self.mcp.close_all_sessions()

    def agent_graph(self):
        graph = StateGraph(MessagesState)
        graph.add_node("tools", ToolNode(list(self.converted.values())))
        graph.set_entry_point("tools")
        return graph.compile()

    async def elicit(self, _context, params):
        return ElicitResult(action="accept", content=self.answer(params.requestedSchema))

    async def tools(self):
        return {name: convert_to_openai_tool(tool)["function"]["parameters"] for name, tool in self.converted.items()}

    async def call(self, name, arguments):
        if name not in self.converted:
            raise Unsupported
        call = AIMessage("", tool_calls=[{"type": "tool_call", "id": "1", "name": name, "args": arguments}])
        result = await self.graph.ainvoke({"messages": [call]})
        return text_of(result["messages"][-1].content)

    async def resources(self):
        return [str(resource.uri) for resource in await self.session.list_resources()]

    async def read(self, uri):
        return text_of(await self.session.read_resource(uri))

    async def prompts(self):
        return [prompt.name for prompt in await self.session.list_prompts()]

    async def prompt(self, name, arguments):
        return text_of(await self.session.get_prompt(name, arguments))


main("mcp-use", "mcp-use", McpUse)
