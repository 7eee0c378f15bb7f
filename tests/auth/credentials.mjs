// Clients of the TypeScript SDKs that have credentials, and never send their user to the authorization server: a machine with a key
// and, with the SDK 2.x, an application with identity assertions.
//
//     node credentials.mjs 1|2 {"url": …, "user": …, "issuer": …, "robot": …}
import { strict as assert } from 'node:assert';
import { packageVersion } from './common.mjs';
import { target, user } from './login.mjs';

const [major] = process.argv.slice(2);
const name = major === '1' ? '@modelcontextprotocol/sdk' : '@modelcontextprotocol/client';
const modules = major === '1' ? ['auth-extensions', 'index', 'streamableHttp'].map(file => `${name}/client/${file}.js`) : [name];
const sdk = Object.assign({}, ...(await Promise.all(modules.map(module => import(module)))));
const expectedIssuer = new URL(target.url).origin;

async function check(what, authProvider) {
    const client = new sdk.Client({ name: 'credentials', version: '1.0.0' });
    await client.connect(new sdk.StreamableHTTPClientTransport(new URL(target.url), { authProvider }));
    const call = async (name, args) => {
        const result = await client.callTool({ name, arguments: args });
        assert.ok(!result.isError, JSON.stringify(result));
        return JSON.stringify(result.content);
    };
    await call('list_notes', {});
    await call('add_note', { text: `from ${what}` });
    assert.ok((await call('list_notes', {})).includes(`from ${what}`));
    await client.close();
    console.log(`${name} ${packageVersion(name)}: ${what}`);
}

const key = { clientId: 'robot', privateKey: target.robot, algorithm: 'ES256', expectedIssuer };
await check('a machine with a key', new sdk.PrivateKeyJwtProvider(key));

if (sdk.CrossAppAccessProvider) {
    const idToken = await user('?sso', '');
    const agent = { clientId: 'agent', clientSecret: 'a secret of the agent', expectedIssuer };
    const assertion = async ({ authorizationServerUrl, resourceUrl, scope, fetchFn }) => {
        const client = { clientId: 'agent', clientSecret: 'a secret of the agent at the provider', idToken, fetchFn };
        const request = { idpUrl: target.issuer, audience: authorizationServerUrl, resource: resourceUrl, scope, ...client };
        return (await sdk.discoverAndRequestJwtAuthGrant(request)).jwtAuthGrant;
    };
    await check('an application with identity assertions', new sdk.CrossAppAccessProvider({ ...agent, assertion }));
}
