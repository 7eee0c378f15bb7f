"""google-adk: an agent with an MCP toolset, run with a scripted model."""

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams, StreamableHTTPConnectionParams
from google.genai import types

from common import Client, main, text_of
from sdk import stdio_parameters


class Scripted(BaseLlm):
    """Calls one tool, then ends. Keeps the last request."""

    function_call: object = None
    request: object = None

    async def generate_content_async(self, llm_request, stream=False):
        self.request = llm_request
        part = types.Part(text="Done.")
        if self.function_call:
            part, self.function_call = types.Part(function_call=self.function_call), None
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=1, candidates_token_count=1, total_token_count=2)
        yield LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=usage)


class GoogleAdk(Client):
    async def __aenter__(self):
        if self.url:
            params = StreamableHTTPConnectionParams(url=self.url)
        else:
            params = StdioConnectionParams(server_params=stdio_parameters(self), timeout=20)
        self.toolset = McpToolset(connection_params=params)
        self.model = Scripted(model="scripted")
        self.runner = InMemoryRunner(agent=LlmAgent(name="probe", model=self.model, tools=[self.toolset]), app_name="probe")
        return self

    async def __aexit__(self, *error):
        await self.runner.close()

    async def run(self):
        session = await self.runner.session_service.create_session(app_name="probe", user_id="user")
        message = types.Content(role="user", parts=[types.Part(text="Go.")])
        async for event in self.runner.run_async(user_id="user", session_id=session.id, new_message=message):
            if event.error_code:
                raise RuntimeError(f"{event.error_code}: {event.error_message}")

    async def tools(self):
        await self.run()
        declarations = [d for tool in self.model.request.config.tools for d in tool.function_declarations]
        return {d.name: schema_of(d) for d in declarations}

    async def call(self, name, arguments):
        self.model.function_call = types.FunctionCall(name=name, args=arguments)
        await self.run()
        parts = self.model.request.contents[-1].parts
        return text_of(next(part.function_response.response for part in parts if part.function_response))


def schema_of(declaration):
    schema = declaration.parameters_json_schema or declaration.parameters
    dump = getattr(schema, "model_dump", None)
    return dump(mode="json", exclude_none=True, by_alias=True) if dump else schema


main("google-adk", "google-adk", GoogleAdk)
