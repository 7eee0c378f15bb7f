"""mcp-proxy, a middleman: stdio servers are reached over HTTP, and HTTP servers over stdio. The client is the Python SDK."""

import asyncio
import re
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from mcp import McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from common import main, text_of
from sdk import AnsweringClient, open_session

PROXY = str(Path(sys.executable).with_name("mcp-proxy"))


class McpProxy(AnsweringClient):
    async def __aenter__(self):
        self.stack = AsyncExitStack()
        if self.url:
            server = StdioServerParameters(command=PROXY, args=["--transport", "streamablehttp", self.url])
            transport = stdio_client(server)
        else:
            transport = streamable_http_client(await self.start())
        self.session = await open_session(self.stack, transport, **self.elicitation)
        return self

    async def __aexit__(self, *error):
        await self.stack.__aexit__(*error)

    async def start(self):
        """Starts the proxy in front of the command. Returns its address."""
        process = await asyncio.create_subprocess_exec(
            PROXY, "--host", "127.0.0.1", "--", *self.command, stderr=asyncio.subprocess.PIPE
        )
        self.stack.push_async_callback(stop, process)
        lines = []
        while line := (await process.stderr.readline()).decode():
            lines.append(line)
            if found := re.search(r"running on (http://\S+)", line):
                self.stack.callback(asyncio.create_task(process.stderr.read()).cancel)
                return f"{found[1]}/mcp"
        raise RuntimeError("".join(lines))

    async def tools(self):
        return {tool.name: tool.inputSchema for tool in (await self.session.list_tools()).tools}

    async def call(self, name, arguments):
        try:
            return text_of(await self.session.call_tool(name, arguments))
        except McpError as error:  # a middleman only has to pass errors on
            return str(error)

    async def resources(self):
        return [str(resource.uri) for resource in (await self.session.list_resources()).resources]

    async def read(self, uri):
        return text_of(await self.session.read_resource(uri))

    async def prompts(self):
        return [prompt.name for prompt in (await self.session.list_prompts()).prompts]

    async def prompt(self, name, arguments):
        return text_of(await self.session.get_prompt(name, arguments))


async def stop(process):
    process.terminate()
    await process.wait()


main("mcp-proxy", "mcp-proxy", McpProxy)
