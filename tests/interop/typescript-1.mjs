// Adapter for the TypeScript SDK 1.x.
//
// The SDK always requests its newest revision, so `withRevision` changes the `initialize` request. Over HTTP, it has a separate
// transport for 2024-11-05.
import { main, packageVersion } from './common.mjs';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

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
        {
            capabilities: {
                ...(user ? { elicitation: { form: {} }, sampling: {} } : {}),
                ...(user?.roots ? { roots: { listChanged: true } } : {}),
            },
        },
    );
    if (user) {
        client.setRequestHandler(ElicitRequestSchema, request => user.elicit(request.params));
        client.setRequestHandler(CreateMessageRequestSchema, request => user.sample(request.params));
    }
    if (user?.roots) {
        client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: user.roots }));
        client.fallbackNotificationHandler = async notification => void user.notifications.push(notification);
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
        callWithProgress: async (name, args) => {
            const updates = [];
            const result = await client.callTool({ name, arguments: args }, undefined, { onprogress: update => updates.push(update) });
            return { result, updates };
        },
        setLevel: level => client.setLoggingLevel(level),
        subscribe: uri => client.subscribeResource({ uri }),
        unsubscribe: uri => client.unsubscribeResource({ uri }),
        startCall: (name, args, started) => {
            const controller = new AbortController();
            const call = client.callTool({ name, arguments: args }, undefined, { onprogress: started, signal: controller.signal });
            return () => (controller.abort('the user cancelled the call'), call);
        },
        rootsChanged: () => client.sendRootsListChanged(),
        tasks: tasksOf(client),
        close: async () => {
            await transport.terminateSession?.();
            // Closing the SSE stream sometimes triggers `onerror`.
            if (transport instanceof SSEClientTransport) client.onerror = undefined;
            await client.close();
        },
    };
}

/** Returns the functions for tasks. `start` reads the first message of a stream, and `wait` the others. */
function tasksOf(client) {
    const { tasks } = client.experimental;
    const streams = new Map();
    return {
        start: async (name, args) => {
            const stream = tasks.callToolStream({ name, arguments: args }, CallToolResultSchema, { task: { ttl: 60_000 } });
            const { value } = await stream.next();
            if (value.type !== 'taskCreated') throw value.error ?? new Error(`expected a task, found ${value.type}`);
            streams.set(value.task.taskId, stream);
            return value.task.taskId;
        },
        wait: async id => {
            for await (const message of streams.get(id)) {
                if (message.type === 'result') return message.result;
                if (message.type === 'error') throw message.error;
            }
        },
        status: async id => (await tasks.getTask(id)).status,
        list: async () => (await tasks.listTasks()).tasks.map(task => task.taskId),
        cancel: id => tasks.cancelTask(id),
    };
}

const revisions = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];
await main('typescript-1', packageVersion('@modelcontextprotocol/sdk'), revisions, connect);
