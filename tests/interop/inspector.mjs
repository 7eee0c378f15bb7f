// The MCP Inspector's command line: one process, and over stdio one server, a request. It hides JSON-RPC codes, looks an unknown tool up
// in tools/list instead of calling it, turns arguments into the type that the schema wants, and offers no completion. It knows
// eras, not revisions.
import { spawn } from 'node:child_process';
import { main, packageVersion } from './common.mjs';

const launcher = new URL('node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js', import.meta.url).pathname;

async function connect(server, revision) {
    const era = { '2026-07-28': 'modern', '2025-11-25': 'legacy' }[revision] ?? revision;
    const target = server.url ? ['--transport', 'http', server.url] : [server.command, ...server.args];
    const ask = (method, ...options) =>
        run(['--cli', ...target, '--format', 'json', '--protocol-era', era, '--method', method, ...options]);
    return {
        errorCodes: false,
        coerces: true,
        concurrency: 2,
        negotiated: async () => (await ask('initialize')).protocolVersion,
        tools: async () => (await ask('tools/list', '--strict')).tools,
        call: (name, args) => ask('tools/call', '--tool-name', name, '--tool-args-json', JSON.stringify(args)),
        resources: async () => (await ask('resources/list')).resources,
        templates: async () => (await ask('resources/templates/list')).resourceTemplates,
        read: async uri => (await ask('resources/read', '--uri', uri)).contents,
        prompts: async () => (await ask('prompts/list')).prompts,
        prompt: (name, args) => ask('prompts/get', '--prompt-name', name, ...promptArguments(args)),
        close: () => undefined,
    };
}

function promptArguments(args) {
    const pairs = Object.entries(args).map(([name, value]) => `${name}=${value}`);
    return pairs.length ? ['--prompt-args', ...pairs] : [];
}

async function run(words) {
    const child = spawn(process.execPath, [launcher, ...words], { stdio: ['ignore', 'pipe', 'pipe'] });
    const [out, err, code] = await Promise.all([
        text(child.stdout),
        text(child.stderr),
        new Promise((resolve, reject) => child.on('error', reject).on('close', resolve)),
    ]);
    const toolFailed = code === 5 && out !== '';
    if (code !== 0 && !toolFailed) throw Object.assign(new Error(envelope(err) ?? `exit ${code}: ${err}${out}`), { exit: code });
    if (err !== '' && !toolFailed) throw new Error(`the Inspector warns: ${err}`);
    return JSON.parse(out).result;
}

function envelope(text) {
    try {
        return JSON.parse(text).error.message;
    } catch {
        return undefined;
    }
}

async function text(stream) {
    let all = '';
    for await (const chunk of stream.setEncoding('utf8')) all += chunk;
    return all;
}

await main('inspector', packageVersion('@modelcontextprotocol/inspector'), ['2026-07-28', '2025-11-25'], connect);
