"""agno: an MCP toolkit, with functions in the format of OpenAI and calls as agents make them."""

from agno.tools.function import FunctionCall
from agno.tools.mcp import MCPTools

from common import Client, Unsupported, main, text_of
from sdk import stdio_parameters


class Agno(Client):
    async def __aenter__(self):
        if self.url:
            self.toolkit = MCPTools(url=self.url, transport="streamable-http", timeout_seconds=20)
        else:
            self.toolkit = MCPTools(server_params=stdio_parameters(self), transport="stdio", timeout_seconds=20)
        await self.toolkit.connect()
        if not self.toolkit.functions:
            raise RuntimeError("no tools")
        return self

    async def __aexit__(self, *error):
        await self.toolkit.close()

    async def tools(self):
        for function in self.toolkit.functions.values():
            function.process_entrypoint()
        return {name: function.to_dict()["parameters"] for name, function in self.toolkit.functions.items()}

    async def call(self, name, arguments):
        if name not in self.toolkit.functions:
            raise Unsupported
        call = FunctionCall(function=self.toolkit.functions[name], arguments=arguments, call_id="1")
        result = await call.aexecute()
        return text_of(result.error if result.status == "failure" else result.result)


main("agno", "agno", Agno)
