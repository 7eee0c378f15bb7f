// What the adapters of the two TypeScript SDKs share: the provider that the SDKs ask, and the checks.
//
//     node ADAPTER {"url": …, "user": …, "clients": …}
//
// `user` opens authorization requests in a browser (see user.mjs). `clients` is the base of the URLs of clients with a metadata
// document, for which the authorization server knows the answer, or empty if no client has one. `grants`, if present, are the grant
// types that the client registers.
import { strict as assert } from 'node:assert';
import { readFileSync } from 'node:fs';

// Nobody listens there, since the user passes the redirection on.
const REDIRECT = 'http://127.0.0.1:65000/callback';

// The state of one client: its registration and tokens, in memory.
export class Provider {
    requests = [];
    #state;

    constructor(target, hasDocument) {
        this.user = target.user;
        this.grants = target.grants ?? ['authorization_code', 'refresh_token'];
        if (hasDocument) this.clientMetadataUrl = `${target.clients}client?redirect=${encodeURIComponent(REDIRECT)}`;
    }

    get redirectUrl() {
        return REDIRECT;
    }

    get clientMetadata() {
        return {
            client_name: 'A TypeScript client',
            redirect_uris: [REDIRECT],
            grant_types: this.grants,
            response_types: ['code'],
            token_endpoint_auth_method: 'none',
            application_type: 'native',
        };
    }

    state() {
        return (this.#state = crypto.randomUUID());
    }

    clientInformation() {
        return this.information;
    }

    saveClientInformation(information) {
        this.information = information;
    }

    tokens() {
        return this.saved;
    }

    saveTokens(tokens) {
        this.saved = tokens;
    }

    async redirectToAuthorization(url) {
        this.requests.push(url.searchParams);
        const response = await fetch(this.user, { method: 'POST', body: String(url) });
        const redirected = await response.text();
        assert.equal(response.status, 200, redirected);
        this.response = new URL(redirected).searchParams;
        assert.equal(this.response.get('state'), this.#state);
        assert.equal(this.response.get('error'), null);
    }

    saveDiscoveryState(state) {
        this.discovered = state;
    }

    discoveryState() {
        return this.discovered;
    }

    saveCodeVerifier(verifier) {
        this.verifier = verifier;
    }

    codeVerifier() {
        return this.verifier;
    }
}

// Returns the installed version of a package.
export function packageVersion(name) {
    return JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;
}

// Runs the checks with each revision, first with a dynamically registered client, then with one that has a metadata document.
// `connect` returns a client and its transport, and `finish` gives the transport the authorization response.
export async function main(name, version, revisions, { connect, finish, Unauthorized }) {
    const target = JSON.parse(process.argv[2]);
    for (const revision of revisions) {
        for (const hasDocument of target.clients ? [false, true] : [false]) {
            const provider = new Provider(target, hasDocument);
            // The SDK throws when the user had to be asked, and expects the application to continue.
            const authorized = async action => {
                const { transport, run } = await action();
                try {
                    return await run();
                } catch (error) {
                    if (!(error instanceof Unauthorized)) throw error;
                    await finish(transport, provider.response);
                    return (await action()).run();
                }
            };
            let connection;
            await authorized(() => {
                connection = connect(target.url, revision, provider);
                return { transport: connection.transport, run: () => connection.client.connect(connection.transport) };
            });
            const { client, transport } = connection;
            const call = (name, args) =>
                authorized(() => ({ transport, run: () => client.callTool({ name, arguments: args }) }));

            const before = await call('list_notes', {});
            assert.ok(!before.isError, JSON.stringify(before));
            assert.equal(provider.requests.length, 1);
            const scopes = request => request.get('scope').split(' ').filter(scope => scope.startsWith('notes:'));
            assert.deepEqual(scopes(provider.requests[0]), ['notes:read']);
            assert.equal(provider.requests[0].get('resource'), target.url);
            assert.equal(provider.information.client_id === provider.clientMetadataUrl, hasDocument);

            const added = await call('add_note', { text: `from ${name}` });
            assert.ok(!added.isError, JSON.stringify(added));
            assert.equal(provider.requests.length, 2);
            assert.ok(scopes(provider.requests[1]).includes('notes:write'));

            const after = await call('list_notes', {});
            assert.ok(JSON.stringify(after.content).includes(`from ${name}`), JSON.stringify(after));
            await client.close();
            const way = hasDocument ? 'metadata document' : 'dynamic registration';
            console.log(`${name} ${version}: ${revision}, ${way}: authorized, stepped up`);
        }
    }
}
