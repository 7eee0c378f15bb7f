"""semantic-kernel: an MCP plugin, with functions in the format of OpenAI and calls as automatic function calling makes them."""

import json

from semantic_kernel import Kernel
from semantic_kernel.connectors.ai.function_calling_utils import kernel_function_metadata_to_function_call_format
from semantic_kernel.connectors.mcp import MCPStdioPlugin, MCPStreamableHttpPlugin
from semantic_kernel.contents import ChatHistory, FunctionCallContent

from common import Client, main, text_of


class SemanticKernel(Client):
    async def __aenter__(self):
        if self.url:
            self.plugin = MCPStreamableHttpPlugin(name="mcp", url=self.url)
        else:
            self.plugin = MCPStdioPlugin(name="mcp", command=self.command[0], args=self.command[1:])
        await self.plugin.connect()
        self.kernel = Kernel()
        self.kernel.add_plugin(self.plugin)
        return self

    async def __aexit__(self, *error):
        await self.plugin.close()

    async def tools(self):
        functions = [
            kernel_function_metadata_to_function_call_format(metadata)["function"]
            for metadata in self.kernel.get_full_list_of_function_metadata()
        ]
        return {function["name"]: function["parameters"] for function in functions}

    async def call(self, name, arguments):
        history = ChatHistory()
        content = FunctionCallContent(id="1", name=f"mcp-{name}", arguments=json.dumps(arguments))
        await self.kernel.invoke_function_call(content, history)
        return text_of([str(item) for message in history.messages for item in message.items])

    async def prompts(self):
        return [metadata.name for metadata in self.kernel.get_full_list_of_function_metadata()]

    async def prompt(self, name, arguments):
        return text_of([str(message) for message in await self.plugin.get_prompt(name, **arguments)])


main("semantic-kernel", "semantic-kernel", SemanticKernel)
