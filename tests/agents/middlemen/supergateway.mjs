import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import { Middleman, run } from './common.mjs';

const PROGRAM = new URL('node_modules/supergateway/dist/index.js', import.meta.url).pathname;

class Supergateway extends Middleman {
    /** The transports of the server. */
    static over = ['stdio', 'http'];

    async connect() {
        if (this.url) return this.startOverStdio(PROGRAM, '--streamableHttp', this.url.href, '--logLevel', 'none');
        const port = await freePort();
        const command = this.target.command.map(word => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
        const options = ['--outputTransport', 'streamableHttp', '--stateful', '--healthEndpoint', '/ready', '--logLevel', 'none'];
        const words = [PROGRAM, '--stdio', command, '--port', port, ...options];
        this.gateway = spawn(process.execPath, words, { stdio: ['ignore', 'ignore', 'inherit'] });
        await answer(`http://127.0.0.1:${port}/ready`);
        return new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/mcp`));
    }

    async close() {
        if (this.gateway) await this.client.transport.terminateSession();
        await super.close();
        if (!this.gateway) return;
        this.gateway.kill();
        await once(this.gateway, 'exit');
    }
}

async function freePort() {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address();
    server.close();
    await once(server, 'close');
    return port;
}

/** Waits until a request to the address is answered. */
async function answer(address) {
    for (;;) {
        try {
            await fetch(address);
            return;
        } catch {
            await sleep(50);
        }
    }
}

await run('supergateway', Supergateway);
