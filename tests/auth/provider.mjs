// An authorization server for tests, and a user with a browser.
//
//     node provider.mjs RESOURCE CHROMIUM
//
// RESOURCE is the identifier of the protected server, which is the audience of the access tokens. The server listens on a free
// port of the loopback interface, and prints one line of JSON: `issuer`, and `user`, the URL to which a client posts the URL of an
// authorization request. The user opens it in headless Chromium, logs in with the name in the query parameter `name`, gives
// consent unless the parameter `refuse` is present, and the response is the URL to which the browser is redirected.
//
// Clients can be registered dynamically, or name themselves by a metadata document below https://clients.example/, for which
// the provider asks this program instead of the network.
import { createServer } from 'node:http';
import { once } from 'node:events';
import { exportJWK, generateKeyPair } from 'jose';
import Provider from 'oidc-provider';
import { chromium } from 'playwright-core';

const [resource, executablePath] = process.argv.slice(2);
const SCOPES = ['notes:read', 'notes:write', 'notes:admin'];
const CLIENTS = 'https://clients.example/';

const server = createServer();
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const issuer = `http://127.0.0.1:${server.address().port}`;

// Creates a signing key.
async function signingKey(alg) {
    const { privateKey } = await generateKeyPair(alg, { extractable: true });
    return { ...(await exportJWK(privateKey)), kid: alg, alg, use: 'sig' };
}

// The metadata document of a client, whose redirect URI is the `redirect` parameter of its URL.
function clientDocument(url) {
    return {
        client_id: url,
        client_name: 'A client with a metadata document',
        redirect_uris: [new URL(url).searchParams.get('redirect')],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
    };
}

const provider = new Provider(issuer, {
    // Clients that do not choose expect identity tokens with RS256.
    jwks: { keys: [await signingKey('ES256'), await signingKey('RS256')] },
    clients: [
        {
            client_id: 'resource-server',
            client_secret: 'a secret of the resource server',
            grant_types: [],
            redirect_uris: [],
            response_types: [],
        },
    ],
    // Clients register with the scopes that they need first. A client that is restricted to them could never ask for more.
    extraClientMetadata: {
        properties: ['scope_is_advice'],
        validator: (_, key, value, metadata) => void delete metadata.scope,
    },
    clientDefaults: { grant_types: ['authorization_code', 'refresh_token'] },
    scopes: ['openid', 'offline_access', ...SCOPES],
    pkce: { required: () => true },
    findAccount: (_, name) => ({ accountId: name, claims: () => ({ sub: name }) }),
    cookies: { keys: ['a key for the cookies of the tests'] },
    fetch: async (url, options) =>
        String(url).startsWith(CLIENTS) ? Response.json(clientDocument(String(url))) : fetch(url, options),
    features: {
        clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
        dPoP: { enabled: true },
        introspection: { enabled: true },
        registration: { enabled: true },
        resourceIndicators: {
            enabled: true,
            defaultResource: () => resource,
            useGrantedResource: () => true,
            getResourceServerInfo: (_, indicator) => {
                if (indicator !== resource) throw Object.assign(new Error('unknown resource'), { error: 'invalid_target' });
                return {
                    scope: SCOPES.join(' '),
                    audience: resource,
                    accessTokenFormat: 'jwt',
                    jwt: { sign: { alg: 'ES256' } },
                };
            },
        },
        revocation: { enabled: true },
    },
});
provider.on('server_error', (_, error) => console.error(error));
server.on('request', (request, response) => {
    if (request.url.startsWith('/user')) return void user(request, response);
    provider.callback()(request, response);
});

const browser = await chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking', '--disable-component-update'],
});

// Opens the URL in the body of a request as the user would.
async function user(request, response) {
    try {
        const options = new URL(request.url, issuer).searchParams;
        let url = '';
        for await (const chunk of request) url += chunk;
        response.end(await authorize(url, options.get('name') ?? 'ada', options.has('refuse')));
    } catch (error) {
        console.error(error);
        response.writeHead(500).end(String(error));
    }
}

async function authorize(url, name, refuses) {
    const context = await browser.newContext();
    try {
        const page = await context.newPage();
        page.setDefaultTimeout(15_000);
        // The client's redirect URI may belong to nobody: the redirection is all that counts.
        const redirected = new Promise(resolve =>
            page.on('request', request => {
                if (request.isNavigationRequest() && !request.url().startsWith(issuer)) resolve(request.url());
            }),
        );
        const opened = page.goto(url).then(() => undefined, error => error);
        const error = await Promise.race([redirected, opened]); // redirected at once if the request is invalid
        if (error) return await redirected;
        await page.fill('input[name=login]', name);
        await page.fill('input[name=password]', 'a password');
        await page.click('button[type=submit]');
        await page.waitForSelector('form input[name=prompt][value=consent]', { state: 'attached' });
        if (refuses) await page.click('a:has-text("Cancel")');
        else await page.click('button[type=submit]');
        return await redirected;
    } finally {
        await context.close();
    }
}

console.log(JSON.stringify({ issuer, user: `${issuer}/user` }));
