// A client of the TypeScript SDK 2.x that loses the connections of its calls again and again, before the next message of a resumed stream
// and within the response: tests/cluster/run starts it with the URL of a load balancer. The long responses must arrive, and the client
// must not open streams for messages outside of calls in the place of those that it loses.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(new URL('../interop/package.json', import.meta.url));
const { Client, StreamableHTTPClientTransport } = await import(pathToFileURL(require.resolve('@modelcontextprotocol/client')));

const CALLS = 4, KILOBYTES = 2048, CUTS = 30;
const LINE = 'Pizza with tomatoes and cheese.\n';

let cuts = 0, opened = 0;

// Breaks a stream off after its first part.
function cut(response) {
    const reader = response.body.getReader();
    let isFirst = true;
    const body = new ReadableStream({
        async pull(controller) {
            if (!isFirst) {
                await reader.cancel();
                return controller.error(new Error('cut'));
            }
            isFirst = false;
            const { value, done } = await reader.read();
            return done ? controller.close() : controller.enqueue(value);
        },
    });
    return new Response(body, response);
}

async function fetchAndCut(url, init) {
    const response = await fetch(url, init);
    if (response.headers.get('content-type') !== 'text/event-stream') return response;
    const resumes = new Headers(init.headers).has('last-event-id');
    if (init.method === 'GET' && !resumes) {
        if (opened++) throw new Error('the client has lost the id of a stream');
        return response;
    }
    return cuts++ < CUTS ? cut(response) : response;
}

const client = new Client({ name: 'cluster', version: '1' });
const reconnectionOptions = { initialReconnectionDelay: 50, maxReconnectionDelay: 200, reconnectionDelayGrowFactor: 1.5, maxRetries: 50 };
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2]), { fetch: fetchAndCut, reconnectionOptions }));
// The client wants no progress, so that the response is the next event whenever it resumes a stream.
const call = () => client.callTool({ name: 'menu', arguments: { kilobytes: KILOBYTES, time: 60 } }, { timeout: 60000 });
const calls = Array.from({ length: CALLS }, call);
for (const { content: [{ text }] } of await Promise.all(calls)) {
    if (text !== LINE.repeat(32 * KILOBYTES)) throw new Error(`${text.length} characters`);
}
if (cuts <= CUTS) throw new Error(`only ${cuts} connections`);
if (opened > 1) throw new Error(`the client has opened ${opened} streams for messages outside of calls`);
await client.close();
