// A client whose user logs out at the provider, in one of two browsers.
//
//     node logout.mjs {"url": …, "user": …}
import { strict as assert } from 'node:assert';
import { json, logIn, register, status, token, user } from './login.mjs';

const client_id = await register('A client of two browsers');
const [ended, other] = [await logIn(client_id, '?keep'), await logIn(client_id)];
const refresh = ({ refresh_token }) => token({ grant_type: 'refresh_token', client_id, refresh_token });
for (const tokens of [ended, other]) assert.notEqual(await status(tokens), 401);

await user('?logout', '');
assert.equal(await status(ended), 401);
assert.equal((await json(await refresh(ended), 400)).error, 'invalid_grant');
assert.notEqual(await status(other), 401, 'the login in another browser');
const refreshed = await json(await refresh(other), 200);
assert.notEqual(await status(refreshed), 401);
console.log('logout: the provider has ended what was allowed in one of two browsers');
