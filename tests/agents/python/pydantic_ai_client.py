"""pydantic-ai: an agent with an MCP toolset, run with a scripted model of OpenAI."""

from fastmcp.client.transports import StdioTransport
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from common import Client, main, text_of
from scripted import ScriptedModel


class PydanticAi(Client):
    answers_forms = True

    async def __aenter__(self):
        transport = self.url or StdioTransport(self.command[0], self.command[1:])
        options = {"elicitation_handler": self.elicit} if self.answer else {}
        self.toolset = MCPToolset(transport, **options)
        self.model = ScriptedModel()
        openai = AsyncOpenAI(api_key="none", http_client=self.model.http_client(), max_retries=0)
        model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=openai))
        self.agent = Agent(model, toolsets=[self.toolset])
        await self.toolset.__aenter__()
        return self

    async def __aexit__(self, *error):
        await self.toolset.__aexit__(*error)

    async def elicit(self, _message, _response_type, params, _context):
        return self.answer(getattr(params, "requested_schema", None) or params.requestedSchema)

    async def tools(self):
        await self.agent.run("Go.")
        return self.model.tools()

    async def call(self, name, arguments):
        self.model.tool_call = (name, arguments)
        await self.agent.run("Go.")
        return self.model.answer()

    async def resources(self):
        return [str(resource.uri) for resource in await self.toolset.list_resources()]

    async def read(self, uri):
        return text_of(await self.toolset.read_resource(uri))

    async def prompts(self):
        return [prompt.name for prompt in await self.toolset.list_prompts()]

    async def prompt(self, name, arguments):
        return text_of(await self.toolset.get_prompt(name, arguments))


main("pydantic-ai", "pydantic-ai-slim", PydanticAi)
