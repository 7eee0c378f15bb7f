// Adapter for the TypeScript SDK 1.x.
//
// The SDK always requests its newest revision, so `withRevision` changes the `initialize` request. Over HTTP, it has a separate
// transport for 2024-11-05.
import { main, packageVersion } from './common.mjs';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

function transportTo(server, revision) {
    if (!server.url) return new StdioClientTransport(server);
    if (revision === '2024-11-05') return new SSEClientTransport(new URL('/sse', server.url));
    return new StreamableHTTPClientTransport(new URL(server.url));
}

function withRevision(transport, revision) {
    const send = transport.send.bind(transport);
    transport.send = (message, options) => {
        if (message.method === 'initialize') message.params.protocolVersion = revision;
        return send(message, options);
    };
    const setProtocolVersion = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = version => {
        transport.negotiated = version;
        setProtocolVersion?.(version);
    };
    return transport;
}

async function connect(server, revision, user) {
    const transport = withRevision(transportTo(server, revision), revision);
    const client = new Client(
        { name: 'interop', version: '1.0.0' },
        { capabilities: user ? { elicitation: { form: {} }, sampling: {} } : {} },
    );
    if (user) {
        client.setRequestHandler(ElicitRequestSchema, request => user.elicit(request.params));
        client.setRequestHandler(CreateMessageRequestSchema, request => user.sample(request.params));
    }
    const errors = [];
    client.onerror = error => errors.push(String(error));
    await client.connect(transport);
    return {
        errors,
        negotiated: () => transport.negotiated,
        ping: () => client.ping(),
        tools: async () => (await client.listTools()).tools,
        call: (name, args) => client.callTool({ name, arguments: args }),
        resources: async () => (await client.listResources()).resources,
        templates: async () => (await client.listResourceTemplates()).resourceTemplates,
        read: async uri => (await client.readResource({ uri })).contents,
        prompts: async () => (await client.listPrompts()).prompts,
        prompt: (name, args) => client.getPrompt({ name, arguments: args }),
        complete: async (ref, name, value) => (await client.complete({ ref, argument: { name, value } })).completion.values,
        close: async () => {
            await transport.terminateSession?.();
            // Closing the SSE stream sometimes triggers `onerror`.
            if (transport instanceof SSEClientTransport) client.onerror = undefined;
            await client.close();
        },
    };
}

const revisions = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];
await main('typescript-1', packageVersion('@modelcontextprotocol/sdk'), revisions, connect);
