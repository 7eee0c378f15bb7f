import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { createRuntime } from 'mcporter';

import { Client, main, versionOf } from '../common.mjs';

const CLI = new URL('node_modules/mcporter/dist/cli.js', import.meta.url).pathname;

class Mcporter extends Client {
    async open() {
        this.directory = mkdtempSync(join(tmpdir(), 'mcporter-'));
        this.config = join(this.directory, 'mcporter.json');
        const server = this.url ? { url: this.url.href } : this.process;
        writeFileSync(this.config, JSON.stringify({ mcpServers: { server }, imports: [] }));
        this.runtime = await createRuntime({ configPath: this.config });
    }

    async close() {
        await this.runtime.close();
        rmSync(this.directory, { recursive: true });
    }

    async tools() {
        const tools = await this.runtime.listTools('server', { includeSchema: true });
        return Object.fromEntries(tools.map(tool => [tool.name, tool.inputSchema]));
    }

    async call(name, args) {
        // The command line prints errors, and the agent reads them.
        return this.runtime.callTool('server', name, { args }).catch(error => error.message);
    }

    async callWithPositions(name, values) {
        // Not as words, of which the command line drops the first.
        const expression = `server.${name}(${values.map(value => JSON.stringify(value)).join(', ')})`;
        const words = ['--config', this.config, 'call', expression, '--output', 'json'];
        const { stdout } = await promisify(execFile)(process.execPath, [CLI, ...words]).catch(error => error); // of a tool error
        const result = JSON.parse(stdout);
        return result.content ?? Object.entries(result).map(([key, value]) => `${key}=${value}`);
    }

    async resources() {
        return this.runtime.listResources('server');
    }

    async read(uri) {
        return this.runtime.readResource('server', uri);
    }
}

await main({ framework: 'mcporter', version: versionOf('mcporter', import.meta.url) }, Mcporter);
