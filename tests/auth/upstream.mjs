// The provider at which the users of an authorization server log in, and a user with a browser.
//
//     node upstream.mjs SERVER CHROMIUM SCREENSHOT
//
// SERVER is the origin of the authorization server, which is a client of the provider, with the identifier `notes` and the secret
// `a secret of the server`. Prints one line of JSON: `issuer`, and `user`, the URL to which a client posts the URL of an authorization
// request. The user opens it in headless Chromium without scripts, approves the client on the page of the server, logs in at the
// provider, gives consent there, and confirms the login, since the server has no TLS. The response is the URL to which the browser is
// redirected. With the query parameter `refuse`, the user does not approve the client. With the parameter `account`, the URL is that of
// the account page: the user logs in, ends the access of the application with this name, and the response is the text of the page
// before and after that, as JSON. The pages of the server are stored as images, SCREENSHOT and one beside it.
import { createServer } from 'node:http';
import { once } from 'node:events';
import { exportJWK, generateKeyPair } from 'jose';
import Provider from 'oidc-provider';
import { chromium } from 'playwright-core';

const [authorizationServer, executablePath, screenshot] = process.argv.slice(2);

const server = createServer();
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const issuer = `http://127.0.0.1:${server.address().port}`;

const { privateKey } = await generateKeyPair('ES256', { extractable: true });
const provider = new Provider(issuer, {
    jwks: { keys: [{ ...(await exportJWK(privateKey)), kid: 'key', alg: 'ES256', use: 'sig' }] },
    clients: [
        {
            client_id: 'notes',
            client_secret: 'a secret of the server',
            grant_types: ['authorization_code', 'refresh_token'],
            redirect_uris: [`${authorizationServer}/authorize/callback`],
            response_types: ['code'],
            id_token_signed_response_alg: 'ES256',
        },
    ],
    scopes: ['openid', 'offline_access'],
    pkce: { required: () => true },
    findAccount: (_, name) => ({ accountId: name, claims: () => ({ sub: name }) }),
    cookies: { keys: ['a key for the cookies of the tests'] },
    features: { devInteractions: { enabled: true } },
});
provider.on('server_error', (_, error) => console.error(error));
server.on('request', (request, response) => {
    if (request.url.startsWith('/user')) return void user(request, response);
    provider.callback()(request, response);
});

const browser = await chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking', '--disable-component-update'],
});

// Opens the URL in the body of a request as the user would.
async function user(request, response) {
    try {
        let url = '';
        for await (const chunk of request) url += chunk;
        const options = new URL(request.url, issuer).searchParams;
        const application = options.get('account');
        response.end(application ? await endAccess(url, application) : await authorize(url, options.has('refuse')));
    } catch (error) {
        console.error(error);
        response.writeHead(500).end(String(error));
    }
}

async function authorize(url, refuses) {
    const context = await browser.newContext({ javaScriptEnabled: false });
    try {
        const page = await context.newPage();
        page.setDefaultTimeout(15_000);
        const isOwn = url => [issuer, authorizationServer].includes(new URL(url).origin);
        // The client's redirect URI may belong to nobody: the redirection is all that counts.
        const redirected = new Promise(resolve =>
            page.on('request', request => {
                if (request.isNavigationRequest() && !isOwn(request.url())) resolve(request.url());
            }),
        );
        const opened = page.goto(url).then(() => undefined, error => error);
        const error = await Promise.race([redirected, opened]); // redirected at once if the request is invalid
        if (error) return await redirected;
        if (screenshot) await page.screenshot({ path: screenshot });
        await page.click(`button[name=decision][value=${refuses ? 'deny' : 'approve'}]`, { noWaitAfter: true });
        if (refuses) return await redirected;
        await logIn(page);
        await page.click('button[name=decision][value=approve]', { noWaitAfter: true });
        return await redirected;
    } finally {
        await context.close();
    }
}

// Logs in at the provider and gives consent there.
async function logIn(page) {
    await page.fill('input[name=login]', 'ada');
    await page.fill('input[name=password]', 'a password');
    await page.click('button[type=submit]');
    await page.waitForSelector('form input[name=prompt][value=consent]', { state: 'attached' });
    await page.click('button[type=submit]');
}

async function endAccess(url, application) {
    const context = await browser.newContext({ javaScriptEnabled: false });
    try {
        const page = await context.newPage();
        page.setDefaultTimeout(15_000);
        await page.goto(url);
        await logIn(page);
        const button = page.locator(`button:has-text("End access of ${application}")`).first();
        await button.waitFor();
        if (screenshot) await page.screenshot({ path: `${screenshot}.account.png`, fullPage: true });
        const before = await page.textContent('main');
        // With the keyboard only.
        await button.focus();
        await page.keyboard.press('Enter');
        await button.waitFor({ state: 'detached' });
        return JSON.stringify({ before, after: await page.textContent('main') });
    } finally {
        await context.close();
    }
}

console.log(JSON.stringify({ issuer, user: `${issuer}/user` }));
