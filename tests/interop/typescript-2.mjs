// Adapter for the TypeScript SDK 2.x.
//
// `2026-07-28` selects the revision without a probe, `auto` probes for it, and older revisions use the handshake. Over HTTP, the SDK
// has a separate transport for 2024-11-05.
import { main, packageVersion } from './common.mjs';
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

function transportTo(server, revision) {
    if (!server.url) return new StdioClientTransport(server);
    if (revision === '2024-11-05') return new SSEClientTransport(new URL('/sse', server.url));
    return new StreamableHTTPClientTransport(new URL(server.url));
}

async function connect(server, revision, user) {
    const transport = transportTo(server, revision);
    const modern = revision >= '2026-07-28';
    const mode = revision === 'auto' ? 'auto' : { pin: revision };
    const client = new Client(
        { name: 'interop', version: '1.0.0' },
        {
            capabilities: {
                ...(user ? { elicitation: { form: {} }, sampling: {} } : {}),
                ...(user?.roots ? { roots: { listChanged: true } } : {}),
            },
            ...(modern ? { versionNegotiation: { mode } } : { supportedProtocolVersions: [revision] }),
        },
    );
    // In 2026-07-28, the client itself retries the call with the values that these handlers return.
    if (user) {
        client.setRequestHandler('elicitation/create', request => user.elicit(request.params));
        client.setRequestHandler('sampling/createMessage', request => user.sample(request.params));
    }
    if (user?.roots) {
        client.setRequestHandler('roots/list', () => ({ roots: user.roots }));
        client.fallbackNotificationHandler = async notification => void user.notifications.push(notification);
    }
    let level; // the log level of the following calls, if it is not the server that keeps it
    let subscription;
    const params = (name, args) => ({
        name,
        arguments: args,
        ...(level && { _meta: { 'io.modelcontextprotocol/logLevel': level } }),
    });
    const errors = [];
    client.onerror = error => errors.push(String(error));
    await client.connect(transport);
    return {
        errors,
        // The client converts -32002 with `data.uri` to a `ResourceNotFoundError` with the newer code.
        resourceNotFound: -32602,
        negotiated: () => client.getNegotiatedProtocolVersion(),
        ping: modern ? undefined : () => client.ping(),
        tools: async () => (await client.listTools()).tools,
        call: (name, args) => client.callTool(params(name, args)),
        resources: async () => (await client.listResources()).resources,
        templates: async () => (await client.listResourceTemplates()).resourceTemplates,
        read: async uri => (await client.readResource({ uri })).contents,
        prompts: async () => (await client.listPrompts()).prompts,
        prompt: (name, args) => client.getPrompt({ name, arguments: args }),
        complete: async (ref, name, value) => (await client.complete({ ref, argument: { name, value } })).completion.values,
        callWithProgress: async (name, args) => {
            const updates = [];
            const result = await client.callTool(params(name, args), { onprogress: update => updates.push(update) });
            return { result, updates };
        },
        setLevel: modern ? value => void (level = value) : value => client.setLoggingLevel(value),
        subscribe: async uri => {
            if (modern) subscription = await client.listen({ resourceSubscriptions: [uri] });
            else await client.subscribeResource({ uri });
        },
        unsubscribe: uri => (modern ? subscription.close() : client.unsubscribeResource({ uri })),
        watchLists: modern
            ? async () => {
                  const filter = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true };
                  const lists = await client.listen(filter);
                  return () => lists.close();
              }
            : undefined,
        startCall: (name, args, started) => {
            const controller = new AbortController();
            const call = client.callTool(params(name, args), { onprogress: started, signal: controller.signal });
            return () => (controller.abort('the user cancelled the call'), call);
        },
        rootsChanged: () => client.sendRootsListChanged(),
        close: async () => {
            await transport.terminateSession?.();
            // Closing the SSE stream triggers `onerror`.
            if (transport instanceof SSEClientTransport) client.onerror = undefined;
            await client.close();
        },
    };
}

const revisions = ['auto', '2026-07-28', '2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];
await main('typescript-2', packageVersion('@modelcontextprotocol/client'), revisions, connect);
