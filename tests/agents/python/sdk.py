"""What clients share whose frameworks build on the Python SDK."""

from contextlib import AsyncExitStack
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.types import ElicitResult

from common import Client


def stdio_parameters(client: Client) -> StdioServerParameters:
    return StdioServerParameters(command=client.command[0], args=client.command[1:])


async def open_session(stack: AsyncExitStack, transport: Any, **options: Any) -> ClientSession:
    """Opens a session that lasts as long as `stack`."""
    streams = await stack.enter_async_context(transport)
    session = await stack.enter_async_context(ClientSession(streams[0], streams[1], **options))
    await session.initialize()
    return session


class AnsweringClient(Client):
    """A client whose user answers elicitation requests."""

    answers_forms = True

    async def elicit(self, _context, params, _more=None):
        schema = getattr(params, "requested_schema", None) or params.requestedSchema
        return ElicitResult(action="accept", content=self.answer(schema))

    @property
    def elicitation(self) -> dict:
        """The callback as an option, if there are answers."""
        return {"elicitation_callback": self.elicit} if self.answer else {}
