// An authorization server for tests.
//
//     node provider.mjs RESOURCE [opaque]
//
// RESOURCE is the identifier of the protected server, which is the audience of the access tokens: JSON Web Tokens, or random words.
// The server has the settings of the example `protected`. It listens on a free port of the loopback interface, and prints one line
// of JSON with its `issuer`.
//
// Clients can also name themselves by a metadata document below https://clients.example/, for which the provider asks this program
// instead of the network. `resource-server` may ask about tokens.
import { createServer } from 'node:http';
import { once } from 'node:events';
import Provider from 'oidc-provider';
import { configuration } from '../../examples/protected/authorization_server.mjs';

const [resource, format] = process.argv.slice(2);
const CLIENTS = 'https://clients.example/';

const server = createServer();
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const issuer = `http://127.0.0.1:${server.address().port}`;

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

const settings = configuration(resource, format);
const provider = new Provider(issuer, {
    ...settings,
    clients: [
        {
            client_id: 'resource-server',
            client_secret: 'a secret of the resource server',
            grant_types: [],
            redirect_uris: [],
            response_types: [],
        },
    ],
    fetch: async (url, options) =>
        String(url).startsWith(CLIENTS) ? Response.json(clientDocument(String(url))) : fetch(url, options),
    features: {
        ...settings.features,
        clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
        dPoP: { enabled: true },
        introspection: { enabled: true },
    },
});
provider.on('server_error', (_, error) => console.error(error));
server.on('request', provider.callback());

console.log(JSON.stringify({ issuer }));
