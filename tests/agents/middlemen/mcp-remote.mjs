import { Middleman, run } from './common.mjs';

const PROGRAM = new URL('node_modules/mcp-remote/dist/proxy.js', import.meta.url).pathname;

class McpRemote extends Middleman {
    /** The transports of the server. */
    static over = ['http'];

    async connect() {
        return this.startOverStdio(PROGRAM, this.url.href);
    }
}

await run('mcp-remote', McpRemote);
