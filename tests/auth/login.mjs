// The login of a client that uses no SDK, with the target in the last argument.
import { strict as assert } from 'node:assert';
import { createHash, randomBytes } from 'node:crypto';

export const target = JSON.parse(process.argv.at(-1));
export const REDIRECT = 'http://127.0.0.1:65000/callback'; // nobody listens there, since the user passes the redirection on

export const endpoint = path => new URL(path, target.url);

export async function json(response, status) {
    const text = await response.text();
    assert.equal(response.status, status, text);
    return JSON.parse(text);
}

export const token = parameters => fetch(endpoint('/token'), { method: 'POST', body: new URLSearchParams(parameters) });

// Lets the user open a URL. Returns the response of the user.
export async function user(query, url) {
    const response = await fetch(`${target.user}${query}`, { method: 'POST', body: String(url) });
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return text;
}

// Registers a client. Returns its id.
export async function register(client_name) {
    const metadata = { client_name, redirect_uris: [REDIRECT], grant_types: ['authorization_code', 'refresh_token'] };
    const registration = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(metadata) };
    return (await json(await fetch(endpoint('/register'), registration), 201)).client_id;
}

// Returns the URL of an authorization request, and the verifier of its challenge.
export function authorization(client_id) {
    const verifier = randomBytes(32).toString('base64url');
    const url = endpoint('/authorize');
    url.search = new URLSearchParams({
        response_type: 'code',
        client_id,
        redirect_uri: REDIRECT,
        code_challenge: createHash('sha256').update(verifier).digest('base64url'),
        code_challenge_method: 'S256',
    });
    return { url, verifier };
}

// Logs a client in. Returns its tokens.
export async function logIn(client_id, query = '') {
    const { url, verifier } = authorization(client_id);
    const code = new URL(await user(query, url)).searchParams.get('code');
    return await json(await token({ grant_type: 'authorization_code', client_id, code, code_verifier: verifier }), 200);
}

// Returns the status of a request to the server with a token.
export async function status({ access_token }) {
    const headers = { authorization: `Bearer ${access_token}`, accept: 'text/event-stream' };
    const response = await fetch(target.url, { headers });
    await response.body?.cancel();
    return response.status;
}
