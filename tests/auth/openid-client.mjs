// Clients that use npm's openid-client: an application that pushes its authorization request, and a machine with a key.
//
//     node openid-client.mjs {"url": …, "user": …, "robot": …}
import { strict as assert } from 'node:assert';
import { importPKCS8 } from 'jose';
import * as client from 'openid-client';
import { packageVersion } from './common.mjs';
import { REDIRECT, status, target, user } from './login.mjs';

const execute = [client.allowInsecureRequests]; // the server has no TLS
const discover = (id, authentication) =>
    client.discovery(new URL(new URL(target.url).origin), id, undefined, authentication, { algorithm: 'oauth2', execute });
const isActive = async (config, token) => (await client.tokenIntrospection(config, token)).active;

const application = await discover('agent', client.ClientSecretBasic('a secret of the agent'));
const [verifier, state] = [client.randomPKCECodeVerifier(), client.randomState()];
const pushed = await client.buildAuthorizationUrlWithPAR(application, {
    redirect_uri: REDIRECT,
    scope: 'notes:read',
    resource: target.url,
    state,
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
});
assert.deepEqual([...pushed.searchParams.keys()].sort(), ['client_id', 'request_uri']);
const redirected = new URL(await user('', pushed));
const checks = { pkceCodeVerifier: verifier, expectedState: state };
const tokens = await client.authorizationCodeGrant(application, redirected, checks);
assert.equal(tokens.scope, 'notes:read');
assert.notEqual(await status(tokens), 401);
assert.equal((await fetch(pushed)).status, 400, 'a pushed request is opened once');

const refreshed = await client.refreshTokenGrant(application, tokens.refresh_token);
const described = await client.tokenIntrospection(application, refreshed.access_token);
assert.deepEqual([described.active, described.aud, described.scope], [true, target.url, 'notes:read']);
await client.tokenRevocation(application, refreshed.refresh_token);
assert.equal(await isActive(application, refreshed.access_token), false);
assert.equal(await status(refreshed), 401);

const robot = await discover('robot', client.PrivateKeyJwt(await importPKCS8(target.robot, 'ES256')));
const own = await client.clientCredentialsGrant(robot, { resource: target.url, scope: 'notes:read' });
assert.equal(await isActive(robot, own.access_token), true);
assert.equal(await isActive(application, own.access_token), false, 'a token of another client');
assert.notEqual(await status(own), 401);
await client.tokenRevocation(robot, own.access_token);
assert.equal(await status(own), 401);
console.log(`openid-client ${packageVersion('openid-client')}: pushed, refreshed, introspected, revoked; with a secret, with a key`);
process.exit(0);
