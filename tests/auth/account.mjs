// A client whose user ends its access on the account page of the server.
//
//     node account.mjs {"url": …, "user": …}
import { strict as assert } from 'node:assert';
import { authorization, endpoint, json, logIn, register, status, token, user } from './login.mjs';

const NAME = 'A client to be ended';
const client_id = await register(NAME);
const tokens = await logIn(client_id);
assert.notEqual(await status(tokens), 401);

const { url: authorize } = authorization(client_id);
const attacked = JSON.parse(await user(`?attack=${encodeURIComponent(authorize)}`, endpoint('/authorize/account')));
for (const host of ['127.0.0.1', 'localhost']) {
    assert.equal(attacked[`account ${host}`], 403, JSON.stringify(attacked));
    assert.equal(attacked[`consent ${host}`], 403, JSON.stringify(attacked));
    assert.equal(attacked[`read ${host}`], 'refused', JSON.stringify(attacked));
    assert.equal(attacked[`buttons ${host}`], 0, JSON.stringify(attacked));
}
assert.notEqual(await status(tokens), 401, 'pages of other origins end nothing');

const { before, after } = JSON.parse(await user(`?account=${encodeURIComponent(NAME)}`, endpoint('/authorize/account')));
assert.ok(before.includes(NAME) && before.includes(client_id) && before.includes('Read your notes'), before);
assert.ok(!after.includes(client_id), after);
assert.equal(await status(tokens), 401);
const refused = await json(await token({ grant_type: 'refresh_token', client_id, refresh_token: tokens.refresh_token }), 400);
assert.equal(refused.error, 'invalid_grant');
console.log('account: the user has ended the access of a client');
