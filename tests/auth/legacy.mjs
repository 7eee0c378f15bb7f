// The TypeScript SDK 1.x as a client of 2025-03-26: it does not know the metadata of resources, and asks for this revision. It logs in,
// calls, refreshes its tokens, and is revoked.
//
//     node legacy.mjs {"url": …, "user": …}
import { strict as assert } from 'node:assert';
import { auth, UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { packageVersion } from './common.mjs';

const target = JSON.parse(process.argv[2]);
const REDIRECT = 'http://127.0.0.1:65000/callback'; // nobody listens there, since the user passes the redirection on
const REVISION = '2025-03-26';

// Removes what clients of the revision do not know.
async function fetchFn(url, options = {}) {
    if (String(url).includes('/.well-known/oauth-protected-resource')) return new Response('', { status: 404 });
    const init = { ...options };
    if (typeof init.body === 'string' && init.body.includes('"initialize"')) {
        const message = JSON.parse(init.body);
        message.params.protocolVersion = REVISION;
        init.body = JSON.stringify(message);
    }
    const response = await fetch(url, init);
    if (!response.headers.has('www-authenticate')) return response;
    const headers = new Headers(response.headers);
    headers.set('www-authenticate', 'Bearer');
    return new Response(response.body, { status: response.status, headers });
}

const provider = {
    redirectUrl: REDIRECT,
    clientMetadata: {
        client_name: 'A client of 2025-03-26',
        redirect_uris: [REDIRECT],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
    },
    requests: [],
    clientInformation: () => provider.information,
    saveClientInformation: information => void (provider.information = information),
    tokens: () => provider.saved,
    saveTokens: tokens => void (provider.saved = tokens),
    saveCodeVerifier: verifier => void (provider.verifier = verifier),
    codeVerifier: () => provider.verifier,
    invalidateCredentials: () => void (provider.saved = undefined),
    async redirectToAuthorization(url) {
        provider.requests.push(url);
        const response = await fetch(target.user, { method: 'POST', body: String(url) });
        const redirected = await response.text();
        assert.equal(response.status, 200, redirected);
        provider.response = new URL(redirected).searchParams;
    },
};

const connect = () => {
    const client = new Client({ name: 'legacy', version: '1.0.0' });
    return { client, transport: new StreamableHTTPClientTransport(new URL(target.url), { authProvider: provider, fetch: fetchFn }) };
};
const first = connect();
await assert.rejects(first.client.connect(first.transport), UnauthorizedError);
assert.equal(provider.requests.length, 1);
assert.equal(provider.requests[0].origin, new URL(target.url).origin);
assert.equal(provider.requests[0].searchParams.get('resource'), null);
assert.equal(provider.response.get('iss'), new URL(target.url).origin);
await first.transport.finishAuth(provider.response.get('code'));

const { client, transport } = connect();
await client.connect(transport);
assert.equal(transport.protocolVersion, REVISION);
const call = async name => {
    const result = await client.callTool({ name, arguments: {} });
    assert.ok(!result.isError, JSON.stringify(result));
    return result;
};
await call('list_notes');
assert.ok(JSON.stringify(await call('is_logged_in')).includes('true'));

const before = { ...provider.saved };
assert.ok(before.refresh_token && before.expires_in <= 600, JSON.stringify(before));
assert.equal(await auth(provider, { serverUrl: target.url, fetchFn }), 'AUTHORIZED');
assert.notEqual(provider.saved.access_token, before.access_token);
assert.notEqual(provider.saved.refresh_token, before.refresh_token);
await call('list_notes');

const endpoint = new URL('/revoke', target.url);
const body = new URLSearchParams({ client_id: provider.information.client_id, token: provider.saved.refresh_token });
assert.equal((await fetch(endpoint, { method: 'POST', body })).status, 200);
await assert.rejects(call('list_notes'), UnauthorizedError);
assert.equal(provider.requests.length, 2);

const refused = await fetch(`${target.user}?refuse`, { method: 'POST', body: String(provider.requests[0]) });
assert.equal(new URL(await refused.text()).searchParams.get('error'), 'access_denied');
const version = packageVersion('@modelcontextprotocol/sdk');
console.log(`typescript-1 ${version} as ${REVISION}: authorized, refreshed, revoked`);
process.exit(0);
