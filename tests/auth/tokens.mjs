// A client for tokens that most SDKs do not support.
//
//     node tokens.mjs dpop|introspection {"url": …, "user": …}
//
// `dpop`: the token is bound to a key of the client, which signs a proof for each request. The TypeScript SDK 2.x does so, too.
// `introspection`: the token is a random word, about which the server asks the issuer until it is revoked.
import { strict as assert } from 'node:assert';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, DpopSession, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';
import { SignJWT, exportJWK, generateKeyPair } from 'jose';
import { Provider, packageVersion } from './common.mjs';

const REDIRECT = 'http://127.0.0.1:65000/callback'; // nobody listens there, since the user passes the redirection on
const REVISION = '2026-07-28';
const REVOCATION_TIMEOUT = 20_000; // milliseconds, with a cache of 2 seconds

const kind = process.argv[2];
const { url, user } = JSON.parse(process.argv[3]);
const isBound = kind === 'dpop';
const hash = text => createHash('sha256').update(text).digest('base64url');

const key = await generateKeyPair('ES256');
const otherKey = await generateKeyPair('ES256');

// Signs a proof. `changes` replaces claims and header parameters.
async function proof(method, target, claims = {}, { signer = key, typ = 'dpop+jwt' } = {}) {
    const all = { htm: method, htu: target, jti: randomUUID(), iat: Math.floor(Date.now() / 1000), ...claims };
    const header = { alg: 'ES256', typ, jwk: await exportJWK(signer.publicKey) };
    return new SignJWT(all).setProtectedHeader(header).sign(signer.privateKey);
}

// Calls `whoami`. Returns the status, the challenges, the nonce, and the text of the result.
async function call(authorization, proof) {
    const _meta = {
        'io.modelcontextprotocol/protocolVersion': REVISION,
        'io.modelcontextprotocol/clientInfo': { name: 'tokens', version: '1.0.0' },
        'io.modelcontextprotocol/clientCapabilities': {},
    };
    const response = await fetch(url, {
        method: 'POST',
        headers: {
            'content-type': 'application/json',
            accept: 'application/json, text/event-stream',
            'mcp-protocol-version': REVISION,
            'mcp-method': 'tools/call',
            'mcp-name': 'whoami',
            ...(authorization && { authorization }),
            ...(proof && { dpop: proof }),
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'whoami', arguments: {}, _meta } }),
    });
    const body = await response.text();
    return {
        status: response.status,
        challenge: response.headers.get('www-authenticate') ?? '',
        nonce: response.headers.get('dpop-nonce'),
        text: response.ok ? JSON.parse(body).result.content[0].text : body,
    };
}

// Posts a form or JSON to the authorization server.
async function post(target, body, headers = {}) {
    const response = await fetch(target, { method: 'POST', body, headers });
    const text = await response.text();
    assert.ok(response.ok, `${target}: ${response.status} ${text}`);
    return text && JSON.parse(text);
}

// Discovers the authorization server, registers, and asks the user. Returns the metadata, the client and its tokens.
async function login() {
    const refused = await call();
    assert.equal(refused.status, 401);
    if (isBound) assert.match(refused.challenge, /DPoP [^,]*algs="[^"]*ES256/);
    const [, link] = /resource_metadata="([^"]+)"/.exec(refused.challenge);
    const resource = await (await fetch(link)).json();
    assert.equal(resource.resource, url);
    assert.equal(resource.dpop_bound_access_tokens_required ?? false, isBound);
    const [issuer] = resource.authorization_servers;
    const metadata = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json();
    assert.equal(metadata.issuer, issuer);

    const registration = {
        redirect_uris: [REDIRECT],
        response_types: ['code'],
        grant_types: ['authorization_code', 'refresh_token'],
        token_endpoint_auth_method: 'none',
        application_type: 'native',
        dpop_bound_access_tokens: isBound,
    };
    const client = await post(metadata.registration_endpoint, JSON.stringify(registration), { 'content-type': 'application/json' });

    const [verifier, state] = [randomBytes(32).toString('base64url'), randomUUID()];
    const request = new URL(metadata.authorization_endpoint);
    request.search = new URLSearchParams({
        response_type: 'code',
        client_id: client.client_id,
        redirect_uri: REDIRECT,
        scope: 'notes:read',
        resource: url,
        state,
        code_challenge: hash(verifier),
        code_challenge_method: 'S256',
    });
    const redirected = await (await fetch(user, { method: 'POST', body: String(request) })).text();
    const response = new URL(redirected).searchParams;
    assert.equal(response.get('state'), state, redirected);

    const form = new URLSearchParams({
        grant_type: 'authorization_code',
        code: response.get('code'),
        redirect_uri: REDIRECT,
        client_id: client.client_id,
        code_verifier: verifier,
        resource: url,
    });
    const headers = isBound ? { dpop: await proof('POST', metadata.token_endpoint) } : {};
    const tokens = await post(metadata.token_endpoint, form, headers);
    assert.equal(tokens.token_type, isBound ? 'DPoP' : 'Bearer');
    return { issuer, metadata, client, token: tokens.access_token };
}

async function boundToken({ issuer, token }) {
    const authorization = `DPoP ${token}`;
    const ath = hash(token);
    const first = await call(authorization, await proof('POST', url, { ath }));
    assert.equal(first.status, 401);
    assert.match(first.challenge, /^DPoP .*error="use_dpop_nonce"/);
    const { nonce } = first;
    const used = await proof('POST', url, { ath, nonce });
    const accepted = await call(authorization, used);
    assert.deepEqual([accepted.status, accepted.text], [200, `${issuer}#ada`]);

    const now = Math.floor(Date.now() / 1000);
    for (const [what, sent, signed, error] of [
        ['no proof', authorization, undefined, 'invalid_dpop_proof'],
        ['a proof that was used before', authorization, used, 'invalid_dpop_proof'],
        ['another method', authorization, await proof('GET', url, { ath, nonce }), 'invalid_dpop_proof'],
        ['another URL', authorization, await proof('POST', `${url}/other`, { ath, nonce }), 'invalid_dpop_proof'],
        ['another token', authorization, await proof('POST', url, { ath: hash('other'), nonce }), 'invalid_dpop_proof'],
        ['an old proof', authorization, await proof('POST', url, { ath, nonce, iat: now - 3600 }), 'invalid_dpop_proof'],
        ['another type', authorization, await proof('POST', url, { ath, nonce }, { typ: 'jwt' }), 'invalid_dpop_proof'],
        ['another key', authorization, await proof('POST', url, { ath, nonce }, { signer: otherKey }), 'invalid_dpop_proof'],
        ['another nonce', authorization, await proof('POST', url, { ath, nonce: 'other' }), 'use_dpop_nonce'],
        ['a bound token without its scheme', `Bearer ${token}`, await proof('POST', url, { ath, nonce }), 'invalid_token'],
    ]) {
        const refused = await call(sent, signed);
        assert.equal(refused.status, 401, `${what}: ${refused.text}`);
        assert.ok(refused.challenge.includes(`error="${error}"`), `${what}: ${refused.challenge}`);
        assert.ok(refused.challenge.includes('resource_metadata="'), `${what}: ${refused.challenge}`);
    }
    const again = await call(authorization, await proof('POST', url, { ath, nonce }));
    assert.equal(again.status, 200, again.text);
    console.log('dpop: a bound token is accepted with its proof, and refused with 10 wrong ones');
}

async function boundTokenOfSdk({ issuer }) {
    const dpop = await DpopSession.create();
    const authProvider = Object.assign(new Provider({ user }, false), { dpop: () => dpop });
    const connect = async () => {
        const client = new Client({ name: 'tokens', version: '1.0.0' });
        const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
        try {
            await client.connect(transport);
            return client;
        } catch (error) {
            if (!(error instanceof UnauthorizedError)) throw error;
            await transport.finishAuth(authProvider.response);
        }
    };
    assert.equal(await connect(), undefined, 'the user is asked');
    const client = await connect();
    assert.equal(authProvider.saved.token_type, 'DPoP');
    const { content } = await client.callTool({ name: 'whoami', arguments: {} });
    assert.equal(content[0].text, `${issuer}#ada`);
    await client.close();
    console.log(`dpop: the TypeScript SDK ${packageVersion('@modelcontextprotocol/client')} signs proofs that are accepted`);
    process.exit(0);
}

async function opaqueToken({ issuer, metadata, client, token }) {
    assert.ok(!token.includes('.'), 'the token is opaque');
    const accepted = await call(`Bearer ${token}`);
    assert.deepEqual([accepted.status, accepted.text], [200, `${issuer}#ada`]);
    const unknown = await call('Bearer unknown');
    assert.equal(unknown.status, 401);
    await post(metadata.revocation_endpoint, new URLSearchParams({ token, client_id: client.client_id }));
    const deadline = Date.now() + REVOCATION_TIMEOUT;
    let refused = await call(`Bearer ${token}`);
    while (refused.status === 200) {
        assert.ok(Date.now() < deadline, 'the revoked token is still accepted');
        await sleep(200);
        refused = await call(`Bearer ${token}`);
    }
    assert.equal(refused.status, 401, refused.text);
    assert.ok(refused.challenge.includes('error="invalid_token"'), refused.challenge);
    console.log('introspection: an opaque token is accepted until it is revoked');
}

const session = await login();
await (isBound ? boundToken(session) : opaqueToken(session));
if (isBound) await boundTokenOfSdk(session);
