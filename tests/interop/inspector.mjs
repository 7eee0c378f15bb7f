// Adapter for the command line of the MCP Inspector.
//
// The Inspector starts one process per request, and over stdio also one server. It hides JSON-RPC codes, rejects tools that are not in
// `tools/list` without calling them, converts arguments to the types in the schema, does not support completion, and distinguishes
// only a legacy and a modern era instead of revisions.
import { spawn } from 'node:child_process';
import { main, packageVersion } from './common.mjs';

const launcher = new URL('node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js', import.meta.url).pathname;

async function connect(server, revision) {
    const era = { '2026-07-28': 'modern', '2025-11-25': 'legacy' }[revision] ?? revision;
    const target = server.url ? ['--transport', 'http', server.url] : [server.command, ...server.args];
    const request = (method, ...options) =>
        run(['--cli', ...target, '--format', 'json', '--protocol-era', era, '--method', method, ...options]);
    return {
        errorCodes: false,
        coerces: true,
        concurrency: 2,
        negotiated: async () => (await request('initialize')).protocolVersion,
        tools: async () => (await request('tools/list', '--strict')).tools,
        call: (name, args) => request('tools/call', '--tool-name', name, '--tool-args-json', JSON.stringify(args)),
        resources: async () => (await request('resources/list')).resources,
        templates: async () => (await request('resources/templates/list')).resourceTemplates,
        read: async uri => (await request('resources/read', '--uri', uri)).contents,
        prompts: async () => (await request('prompts/list')).prompts,
        prompt: (name, args) => request('prompts/get', '--prompt-name', name, ...promptArguments(args)),
        close: () => undefined,
    };
}

function promptArguments(args) {
    const pairs = Object.entries(args).map(([name, value]) => `${name}=${value}`);
    return pairs.length ? ['--prompt-args', ...pairs] : [];
}

async function run(args) {
    const child = spawn(process.execPath, [launcher, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    const [out, err, code] = await Promise.all([
        text(child.stdout),
        text(child.stderr),
        new Promise((resolve, reject) => child.on('error', reject).on('close', resolve)),
    ]);
    const toolFailed = code === 5 && out !== '';
    if (code !== 0 && !toolFailed) throw Object.assign(new Error(jsonErrorMessage(err) ?? `exit ${code}: ${err}${out}`), { exit: code });
    if (err !== '' && !toolFailed) throw new Error(`unexpected output on stderr: ${err}`);
    return JSON.parse(out).result;
}

function jsonErrorMessage(text) {
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
