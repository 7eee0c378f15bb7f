"""langchain-mcp-adapters: tools in the format of OpenAI, and calls as `ToolNode` makes them."""

from datetime import timedelta

from langchain_core.messages import AIMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.prompts import load_mcp_prompt
from langchain_mcp_adapters.resources import load_mcp_resources
from langchain_mcp_adapters.tools import load_mcp_tools
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from mcp.types import ElicitResult

from common import Client, Unsupported, main, text_of


class LangChain(Client):
    answers_forms = True

    async def __aenter__(self):
        connection = {"transport": "http", "url": self.url, "timeout": timedelta(seconds=20)}
        if not self.url:
            connection = {"transport": "stdio", "command": self.command[0], "args": self.command[1:]}
        callbacks = Callbacks(on_elicitation=self.elicit) if self.answer else None
        client = MultiServerMCPClient({"server": connection}, callbacks=callbacks)
        self.context = client.session("server")
        self.session = await self.context.__aenter__()
        self.converted = {tool.name: tool for tool in await load_mcp_tools(self.session, callbacks=callbacks)}
        self.graph = self.agent_graph()
        return self

    async def __aexit__(self, *error):
        await self.context.__aexit__(*error)

    def agent_graph(self):
        graph = StateGraph(MessagesState)
        graph.add_node("tools", ToolNode(list(self.converted.values())))
        graph.set_entry_point("tools")
        return graph.compile()

    async def elicit(self, _mcp_context, params, _context):
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
        return [str(blob.metadata["uri"]) for blob in await load_mcp_resources(self.session)]

    async def read(self, uri):
        return "".join(blob.as_string() for blob in await load_mcp_resources(self.session, uris=uri))

    async def prompt(self, name, arguments):
        return text_of(await load_mcp_prompt(self.session, name, arguments=arguments))


main("langchain-mcp-adapters", "langchain-mcp-adapters", LangChain)
