// Adapter for the TypeScript SDK 2.x.
import { main, packageVersion } from './common.mjs';

import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';

await main('typescript-2', packageVersion('@modelcontextprotocol/client'), ['2026-07-28', '2025-11-25', '2025-06-18'], {
    connect: (url, revision, authProvider) => {
        const isModern = revision >= '2026-07-28';
        const versions = isModern ? { versionNegotiation: { mode: { pin: revision } } } : { supportedProtocolVersions: [revision] };
        return {
            client: new Client({ name: 'auth', version: '1.0.0' }, versions),
            transport: new StreamableHTTPClientTransport(new URL(url), { authProvider }),
        };
    },
    finish: (transport, response) => transport.finishAuth(response),
    Unauthorized: UnauthorizedError,
});
