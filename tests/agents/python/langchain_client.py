"""langchain-mcp-adapters: tools in the format of OpenAI, and calls as `ToolNode` makes them."""

from datetime import timedelta

from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.prompts import load_mcp_prompt
from langchain_mcp_adapters.resources import load_mcp_resources
from langchain_mcp_adapters.tools import load_mcp_tools

from common import main, text_of
from langgraph_tools import LangGraphClient


class LangChain(LangGraphClient):
    async def __aenter__(self):
        connection = {"transport": "http", "url": self.url, "timeout": timedelta(seconds=20)}
        if not self.url:
            connection = {"transport": "stdio", "command": self.command[0], "args": self.command[1:]}
        callbacks = Callbacks(on_elicitation=self.elicit) if self.answer else None
        client = MultiServerMCPClient({"server": connection}, callbacks=callbacks)
        self.context = client.session("server")
        self.session = await self.context.__aenter__()
        self.use(await load_mcp_tools(self.session, callbacks=callbacks))
        return self

    async def __aexit__(self, *error):
        await self.context.__aexit__(*error)

    async def resources(self):
        return [str(blob.metadata["uri"]) for blob in await load_mcp_resources(self.session)]

    async def read(self, uri):
        return "".join(blob.as_string() for blob in await load_mcp_resources(self.session, uris=uri))

    async def prompt(self, name, arguments):
        return text_of(await load_mcp_prompt(self.session, name, arguments=arguments))


main("langchain-mcp-adapters", "langchain-mcp-adapters", LangChain)
