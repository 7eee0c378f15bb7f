// A client of the TypeScript SDK 1.x that answers questions, many at a time, and hears of changes: tests/cluster/run starts it with the
// URL of a load balancer. Prints the number of replicas that it has reached.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(new URL('../interop/package.json', import.meta.url));
const load = path => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${path}`)));
const { Client } = await load('client/index.js');
const { StreamableHTTPClientTransport } = await load('client/streamableHttp.js');
const { ElicitRequestSchema } = await load('types.js');

const client = new Client({ name: 'cluster', version: '1' }, { capabilities: { elicitation: {} } });
const questions = [];
client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    questions.push(params.message);
    return { action: 'accept', content: { sure: true } };
});
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
const call = async (name, args = {}) => (await client.callTool({ name, arguments: args })).content[0].text;

const toppings = Array.from({ length: 30 }, (_, number) => `topping ${number}`);
const ordered = await Promise.all(toppings.map(topping => call('order', { topping })));
for (const [number, text] of ordered.entries()) {
    if (!text.startsWith(`a guest ordered a pizza with ${toppings[number]} from process `)) throw new Error(text);
}
if (questions.length !== toppings.length) throw new Error(`${questions.length} questions`);
const replicas = new Set(await Promise.all(toppings.map(() => call('replica'))));
if (replicas.size < 2) throw new Error(`all requests reached ${[...replicas]}`);
await client.close();
