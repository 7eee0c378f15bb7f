"""What clients share whose tools are those of LangChain: the format of OpenAI, and calls as `ToolNode` makes them."""

from langchain_core.messages import AIMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from common import Unsupported, text_of
from sdk import AnsweringClient


class LangGraphClient(AnsweringClient):
    def use(self, tools):
        """Builds an agent that calls these tools."""
        self.converted = {tool.name: tool for tool in tools}
        graph = StateGraph(MessagesState)
        graph.add_node("tools", ToolNode(list(self.converted.values())))
        graph.set_entry_point("tools")
        self.graph = graph.compile()

    async def tools(self):
        return {name: convert_to_openai_tool(tool)["function"]["parameters"] for name, tool in self.converted.items()}

    async def call(self, name, arguments):
        if name not in self.converted:
            raise Unsupported
        call = AIMessage("", tool_calls=[{"type": "tool_call", "id": "1", "name": name, "args": arguments}])
        result = await self.graph.ainvoke({"messages": [call]})
        return text_of(result["messages"][-1].content)
