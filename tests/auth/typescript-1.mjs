// Adapter for the TypeScript SDK 1.x.
import { main, packageVersion } from './common.mjs';

import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

await main('typescript-1', packageVersion('@modelcontextprotocol/sdk'), ['2025-11-25'], {
    connect: (url, _, authProvider) => ({
        client: new Client({ name: 'auth', version: '1.0.0' }),
        transport: new StreamableHTTPClientTransport(new URL(url), { authProvider }),
    }),
    finish: (transport, response) => transport.finishAuth(response.get('code')),
    Unauthorized: UnauthorizedError,
});
