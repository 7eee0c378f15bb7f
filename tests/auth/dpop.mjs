// A client of the TypeScript SDK whose tokens are bound to its key, also after a refresh.
//
//     node dpop.mjs {"url": …, "user": …}
import { strict as assert } from 'node:assert';
import { Client, DpopSession, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';
import { Provider, packageVersion } from './common.mjs';
import { endpoint, status, target, token } from './login.mjs';

const dpop = await DpopSession.create();
const authProvider = Object.assign(new Provider(target, false), { dpop: () => dpop });

async function connect() {
    const client = new Client({ name: 'dpop', version: '1.0.0' });
    const transport = new StreamableHTTPClientTransport(new URL(target.url), { authProvider });
    try {
        await client.connect(transport);
        return client;
    } catch (error) {
        if (!(error instanceof UnauthorizedError)) throw error;
        await transport.finishAuth(authProvider.response);
    }
}

async function call(client) {
    const result = await client.callTool({ name: 'list_notes', arguments: {} });
    assert.ok(!result.isError, JSON.stringify(result));
}

assert.equal(await connect(), undefined, 'the user is asked');
const first = authProvider.saved;
assert.equal(first.token_type, 'DPoP');
const client = await connect();
await call(client);
assert.equal(await status(first), 401, 'the token is accepted without a proof');

authProvider.saved = { ...first, access_token: 'expired' };
await call(client);
const refreshed = authProvider.saved;
assert.equal(refreshed.token_type, 'DPoP');
assert.notEqual(refreshed.refresh_token, first.refresh_token);
assert.equal(authProvider.requests.length, 1, 'the user is asked again');
await client.close();

const stolen = { grant_type: 'refresh_token', refresh_token: refreshed.refresh_token };
const refused = await token({ ...stolen, client_id: authProvider.information.client_id });
assert.deepEqual([refused.status, (await refused.json()).error], [400, 'invalid_grant']);
const metadata = await (await fetch(endpoint('/.well-known/oauth-authorization-server'))).json();
assert.ok(metadata.dpop_signing_alg_values_supported.includes('ES256'));
console.log(`dpop: the TypeScript SDK ${packageVersion('@modelcontextprotocol/client')} has bound tokens, and refreshes them with its key`);
process.exit(0);
