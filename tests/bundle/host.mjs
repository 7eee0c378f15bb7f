// Starts the server of an unpacked bundle as a desktop client does: `node host.mjs DIRECTORY`.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join, sep } from 'node:path';
import { getMcpConfigForManifest } from '@anthropic-ai/mcpb';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport, getDefaultEnvironment } from '@modelcontextprotocol/sdk/client/stdio.js';

const [directory] = process.argv.slice(2);
const manifest = JSON.parse(readFileSync(join(directory, 'manifest.json'), 'utf8'));

const configOf = userConfig =>
    getMcpConfigForManifest({
        manifest,
        extensionPath: directory,
        systemDirs: { HOME: homedir() },
        userConfig,
        pathSeparator: sep,
    });

assert.ok(manifest.compatibility.platforms.includes(process.platform), 'the bundle supports this platform');
assert.equal(manifest.user_config.test_token.sensitive, true, 'a token is sensitive');
assert.equal(manifest.user_config.rust_log.sensitive, false, 'a setting is not sensitive');
assert.equal(manifest.display_name, 'Everything', 'Cargo.toml adds members');
assert.equal(manifest.user_config.rust_log.title, 'Log filter', 'Cargo.toml overrides members');
assert.equal(await configOf({}), undefined, 'a required value is missing');
assert.equal((await configOf({ test_token: 'hush' })).env.RUST_LOG, 'off', 'the default applies');

const config = await configOf({ test_token: 'hush', rust_log: 'info' });
assert.equal(config.env.TEST_TOKEN, 'hush');
const cwd = mkdtempSync(join(tmpdir(), 'bundle-'));
const transport = new StdioClientTransport({
    command: config.command,
    args: config.args,
    env: { ...getDefaultEnvironment(), ...config.env },
    cwd,
    stderr: 'pipe',
});
let log = '';
transport.stderr.on('data', text => (log += text));
const client = new Client({ name: 'host', version: '1.0.0' });
const timer = setTimeout(() => {
    console.error('the server did not respond within 60 s');
    process.exit(1);
}, 60_000);
await client.connect(transport);
const tools = (await client.listTools()).tools.map(tool => [tool.name, tool.description]);
assert.deepEqual(manifest.tools.map(tool => [tool.name, tool.description]), tools, 'the manifest lists the tools of the server');
const prompts = (await client.listPrompts()).prompts.map(prompt => [prompt.name, (prompt.arguments ?? []).map(it => it.name)]);
assert.deepEqual(manifest.prompts.map(prompt => [prompt.name, prompt.arguments]), prompts, 'the manifest lists the prompts of the server');
const result = await client.callTool({ name: 'greet', arguments: { name: 'Ada' } });
assert.ok(!result.isError, JSON.stringify(result));
assert.equal(result.content[0].text, 'Hello, Ada!');
assert.match(log, /INFO/, 'the configured log level reached the server');
await client.close();
clearTimeout(timer);
rmSync(cwd, { recursive: true });
