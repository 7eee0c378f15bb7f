// An authorization server to try the example with, which also starts the example. See demo.sh.
//
//     node authorization_server.mjs ADDRESS COMMAND…
//
// ADDRESS is where the command listens. Users log in with any name and any password, clients register themselves, and everything is
// forgotten at the end: a real authorization server does none of this.
import { spawn } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';

const SCOPES = ['notes:read', 'notes:write', 'notes:admin'];

// Returns the settings of oidc-provider for tokens whose audience is `resource`. Tokens of the format `opaque` are random words.
export function configuration(resource, format = 'jwt') {
    return {
        // Clients that do not choose expect identity tokens with RS256.
        jwks: { keys: [signingKey('ES256', 'ec', { namedCurve: 'P-256' }), signingKey('RS256', 'rsa', { modulusLength: 2048 })] },
        // Clients register with the scopes that they need first. A client that is restricted to them could never ask for more.
        extraClientMetadata: {
            properties: ['scope_is_advice'],
            validator: (_, key, value, metadata) => void delete metadata.scope,
        },
        clientDefaults: { grant_types: ['authorization_code', 'refresh_token'] },
        scopes: ['openid', 'offline_access', ...SCOPES],
        pkce: { required: () => true },
        findAccount: (_, name) => ({ accountId: name, claims: () => ({ sub: name }) }),
        cookies: { keys: [crypto.randomUUID()] },
        features: {
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
                        accessTokenFormat: format,
                        ...(format === 'jwt' && { jwt: { sign: { alg: 'ES256' } } }),
                    };
                },
            },
            revocation: { enabled: true },
        },
    };
}

function signingKey(alg, type, options) {
    const { privateKey } = generateKeyPairSync(type, options);
    return { ...privateKey.export({ format: 'jwk' }), kid: alg, alg, use: 'sig' };
}

async function main([address, command, ...args]) {
    const { default: Provider } = await import('oidc-provider');
    const resource = `http://${address}/mcp`;
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const issuer = `http://127.0.0.1:${server.address().port}`;
    server.on('request', new Provider(issuer, configuration(resource)).callback());

    const options = ['--http', address, '--issuer', issuer, '--resource', resource];
    const example = spawn(command, [...args, ...options], { stdio: ['ignore', 'inherit', 'pipe'] });
    for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => example.kill(signal));
    example.on('exit', code => process.exit(code ?? 0));
    example.on('error', error => {
        console.error(`cannot run ${command}: ${error.message}`);
        process.exit(1);
    });
    for await (const text of example.stderr) {
        process.stderr.write(text);
        if (String(text).includes(' listens on ')) console.log(instructions(resource));
    }
}

function instructions(resource) {
    return `
Log in from another terminal, with any name and any password:

  cargo mcp login ${resource}
  cargo mcp check ${resource}
  cargo mcp call ${resource} list_notes

Adding a note requires another scope, so the browser opens again:

  cargo mcp call ${resource} add_note text=Hello
  cargo mcp call ${resource} list_notes
  cargo mcp logout ${resource}

Ctrl-C ends both servers.
`;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main(process.argv.slice(2));
