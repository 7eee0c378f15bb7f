// A client whose user ends its access on the account page of the server.
//
//     node account.mjs {"url": …, "user": …}
import { strict as assert } from 'node:assert';
import { createHash, randomBytes } from 'node:crypto';

const target = JSON.parse(process.argv[2]);
const REDIRECT = 'http://127.0.0.1:65000/callback'; // nobody listens there, since the user passes the redirection on
const NAME = 'A client to be ended';

const endpoint = path => new URL(path, target.url);
const json = async (response, status) => {
    const text = await response.text();
    assert.equal(response.status, status, text);
    return JSON.parse(text);
};
const token = parameters => fetch(endpoint('/token'), { method: 'POST', body: new URLSearchParams(parameters) });
const user = async (query, url) => {
    const response = await fetch(`${target.user}${query}`, { method: 'POST', body: String(url) });
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return text;
};

const metadata = { client_name: NAME, redirect_uris: [REDIRECT], grant_types: ['authorization_code', 'refresh_token'] };
const registration = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(metadata) };
const { client_id } = await json(await fetch(endpoint('/register'), registration), 201);
const verifier = randomBytes(32).toString('base64url');
const authorize = endpoint('/authorize');
authorize.search = new URLSearchParams({
    response_type: 'code',
    client_id,
    redirect_uri: REDIRECT,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
});
const code = new URL(await user('', authorize)).searchParams.get('code');
const tokens = await json(await token({ grant_type: 'authorization_code', client_id, code, code_verifier: verifier }), 200);
const status = async () => {
    const headers = { authorization: `Bearer ${tokens.access_token}`, accept: 'text/event-stream' };
    const response = await fetch(target.url, { headers });
    await response.body?.cancel();
    return response.status;
};
assert.notEqual(await status(), 401);

const attacked = JSON.parse(await user(`?attack=${encodeURIComponent(authorize)}`, endpoint('/authorize/account')));
for (const host of ['127.0.0.1', 'localhost']) {
    assert.equal(attacked[`account ${host}`], 403, JSON.stringify(attacked));
    assert.equal(attacked[`consent ${host}`], 403, JSON.stringify(attacked));
    assert.equal(attacked[`read ${host}`], 'refused', JSON.stringify(attacked));
    assert.equal(attacked[`buttons ${host}`], 0, JSON.stringify(attacked));
}
assert.notEqual(await status(), 401, 'pages of other origins end nothing');

const { before, after } = JSON.parse(await user(`?account=${encodeURIComponent(NAME)}`, endpoint('/authorize/account')));
assert.ok(before.includes(NAME) && before.includes(client_id) && before.includes('Read your notes'), before);
assert.ok(!after.includes(client_id), after);
assert.equal(await status(), 401);
const refused = await json(await token({ grant_type: 'refresh_token', client_id, refresh_token: tokens.refresh_token }), 400);
assert.equal(refused.error, 'invalid_grant');
console.log('account: the user has ended the access of a client');
