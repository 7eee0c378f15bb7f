"""autogen-ext: the workbench, and tools in the format of OpenAI."""

from autogen_core import CancellationToken
from autogen_core.tools import Workbench
from autogen_ext.models.openai._openai_client import convert_tools
from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams, StreamableHttpServerParams, mcp_server_tools

from common import Client, main, text_of


class AutoGen(Client):
    async def __aenter__(self):
        if self.url:
            self.params = StreamableHttpServerParams(url=self.url)
        else:
            # The default of 5 seconds is too short on a busy machine.
            self.params = StdioServerParams(command=self.command[0], args=self.command[1:], read_timeout_seconds=60)
        self.workbench: Workbench = McpWorkbench(self.params)
        await self.workbench.start()
        return self

    async def __aexit__(self, *error):
        await self.workbench.stop()

    async def tools(self):
        # Through the adapters of single tools, which build Pydantic models from schemas, as agents with `tools=` do.
        converted = convert_tools(await mcp_server_tools(self.params))
        return {tool["function"]["name"]: tool["function"]["parameters"] for tool in converted}

    async def call(self, name, arguments):
        result = await self.workbench.call_tool(name, arguments, CancellationToken())
        return text_of(result.to_text())

    async def resources(self):
        return [str(resource.uri) for resource in (await self.workbench.list_resources()).resources]

    async def read(self, uri):
        return text_of(await self.workbench.read_resource(uri))

    async def prompts(self):
        return [prompt.name for prompt in (await self.workbench.list_prompts()).prompts]

    async def prompt(self, name, arguments):
        return text_of(await self.workbench.get_prompt(name, arguments))


main("autogen-ext", "autogen-ext", AutoGen)
