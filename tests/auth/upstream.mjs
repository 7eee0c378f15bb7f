// The provider at which the users of an authorization server log in, and a user with a browser.
//
//     node upstream.mjs SERVER CHROMIUM SCREENSHOT
//
// SERVER is the origin of the authorization server, which is a client of the provider, with the identifier `notes` and the secret
// `a secret of the server`. Prints one line of JSON: `issuer`; `robot`, a key pair of a machine as PEM and as JWK set; and `user`, the URL
// to which a client posts the URL of an authorization request. The user opens it in headless Chromium without scripts, approves the client on the page of the server, logs in at the
// provider, gives consent there, and confirms the login, since the server has no TLS. The response is the URL to which the browser is
// redirected. With the query parameter `refuse`, the user does not approve the client. With the parameter `account`, the URL is that of
// the account page: the user logs in, ends the access of the application with this name, and the response is the text of the page
// before and after that, as JSON. With the parameter `keep`, the browser remains open until a request with the parameter `logout`, with
// which the user logs out at the provider. With the parameter `sso`, the user logs in at the application `agent`, which is a client of the
// provider, too, and the response is its ID token; the provider exchanges it for identity assertions. With the parameter `attack`, which is the URL of an authorization request, the user opens that and the
// account page, and then pages of other origins that try to answer them, to frame them and to read them; the response says how that
// ended. The pages of the server are answered with the keyboard only, and stored as images, light and dark, SCREENSHOT and beside it.
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { SignJWT, exportJWK, exportPKCS8, generateKeyPair, jwtVerify } from 'jose';
import Provider, { errors } from 'oidc-provider';
import { chromium } from 'playwright-core';

const [authorizationServer, executablePath, screenshot] = process.argv.slice(2);
const REDIRECT = 'http://127.0.0.1:65000/callback'; // nobody listens there
const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
const ASSERTION = 'urn:ietf:params:oauth:token-type:id-jag';

const server = createServer();
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const issuer = `http://127.0.0.1:${server.address().port}`;

const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
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
            backchannel_logout_uri: `${authorizationServer}/authorize/backchannel-logout`,
            backchannel_logout_session_required: true,
        },
        {
            client_id: 'agent',
            client_secret: 'a secret of the agent at the provider',
            token_endpoint_auth_method: 'client_secret_post',
            grant_types: ['authorization_code', EXCHANGE],
            redirect_uris: [REDIRECT],
            response_types: ['code'],
            id_token_signed_response_alg: 'ES256',
        },
    ],
    scopes: ['openid', 'offline_access'],
    pkce: { required: () => true },
    findAccount: (_, name) => ({ accountId: name, claims: () => ({ sub: name }) }),
    cookies: { keys: ['a key for the cookies of the tests'] },
    // The dispatcher refuses addresses that are not public, such as that of the authorization server.
    fetch: (url, { dispatcher, ...options }) => fetch(url, options),
    features: { backchannelLogout: { enabled: true }, devInteractions: { enabled: true } },
});
provider.on('server_error', (_, error) => console.error(error));
provider.on('backchannel.error', (_, error) => console.error(error));
provider.registerGrantType(EXCHANGE, exchange, ['audience', 'requested_token_type', 'resource', 'scope', 'subject_token', 'subject_token_type']);

// Exchanges an ID token of a client for an identity assertion, for another authorization server that knows the client by the same id.
async function exchange(ctx) {
    const { client, params } = ctx.oidc;
    if (params.requested_token_type !== ASSERTION) throw new errors.InvalidRequest('expected a request for an identity assertion');
    const { payload } = await jwtVerify(params.subject_token, publicKey, { issuer, audience: client.clientId });
    const claims = { sub: payload.sub, client_id: client.clientId, resource: params.resource, scope: params.scope, jti: randomUUID() };
    const assertion = new SignJWT(claims).setProtectedHeader({ alg: 'ES256', kid: 'key', typ: 'oauth-id-jag+jwt' });
    assertion.setIssuer(issuer).setAudience(params.audience).setIssuedAt().setExpirationTime('5m');
    const access_token = await assertion.sign(privateKey);
    ctx.body = { issued_token_type: ASSERTION, access_token, token_type: 'N_A', expires_in: 300, scope: params.scope };
}

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
        if (options.has('attack')) response.end(await attack(url, options.get('attack')));
        else if (options.has('sso')) response.end(await signOn());
        else if (options.has('logout')) response.end(await logOut());
        else if (application) response.end(await endAccess(url, application));
        else response.end(await authorize(url, options.has('refuse'), options.has('keep')));
    } catch (error) {
        console.error(error);
        response.writeHead(500).end(String(error));
    }
}

let kept;

async function authorize(url, refuses, keeps) {
    const context = await browser.newContext({ javaScriptEnabled: false });
    try {
        const page = await context.newPage();
        page.setDefaultTimeout(15_000);
        const redirected = redirection(page);
        const opened = page.goto(url).then(() => undefined, error => error);
        const error = await Promise.race([redirected, opened]); // redirected at once if the request is invalid
        if (error) return await redirected;
        if (screenshot) await pictures(page, screenshot);
        await press(page, `button[name=decision][value=${refuses ? 'deny' : 'approve'}]`);
        if (refuses) return await redirected;
        await logIn(page);
        await page.waitForSelector('button[name=decision][value=approve]');
        await press(page, 'button[name=decision][value=approve]');
        return await redirected;
    } finally {
        if (keeps) kept = context;
        else await context.close();
    }
}

// Waits until a page is redirected to a client. Its redirect URI may belong to nobody: the redirection is all that counts.
function redirection(page) {
    const isOwn = url => [issuer, authorizationServer].includes(new URL(url).origin);
    return new Promise(resolve =>
        page.on('request', request => {
            if (request.isNavigationRequest() && !isOwn(request.url())) resolve(request.url());
        }),
    );
}

async function logOut() {
    const page = await kept.newPage();
    page.setDefaultTimeout(15_000);
    await page.goto(`${issuer}/session/end`);
    const ended = page.waitForResponse(response => response.request().method() === 'POST');
    await page.click('button[name=logout][value=yes]');
    await ended;
    await kept.close();
    return 'logged out';
}

async function signOn() {
    const context = await browser.newContext({ javaScriptEnabled: false });
    try {
        const page = await context.newPage();
        page.setDefaultTimeout(15_000);
        const code_verifier = randomBytes(32).toString('base64url');
        const challenge = createHash('sha256').update(code_verifier).digest('base64url');
        const client = { client_id: 'agent', redirect_uri: REDIRECT };
        const request = { response_type: 'code', scope: 'openid', code_challenge: challenge, code_challenge_method: 'S256' };
        const redirected = redirection(page);
        await page.goto(`${issuer}/auth?${new URLSearchParams({ ...client, ...request })}`);
        await logIn(page);
        const code = new URL(await redirected).searchParams.get('code');
        const client_secret = 'a secret of the agent at the provider';
        const body = new URLSearchParams({ ...client, client_secret, grant_type: 'authorization_code', code, code_verifier });
        return (await (await fetch(`${issuer}/token`, { method: 'POST', body })).json()).id_token;
    } finally {
        await context.close();
    }
}

// Activates an element with the keyboard only.
async function press(page, selector) {
    for (let steps = 0; steps < 50; steps++) {
        if (await page.locator(`${selector}:focus`).count()) return await page.keyboard.press('Enter');
        await page.keyboard.press('Tab');
    }
    throw new Error(`${selector} cannot be reached with the keyboard`);
}

async function pictures(page, path) {
    const light = await page.screenshot({ path, fullPage: true });
    await page.emulateMedia({ colorScheme: 'dark' });
    const dark = await page.screenshot({ path: `${path}.dark.png`, fullPage: true });
    await page.emulateMedia({ colorScheme: 'light' });
    if (light.equals(dark)) throw new Error('the page is not dark');
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
        const selector = `button:has-text("End access of ${application}")`;
        const button = page.locator(selector).first();
        await button.waitFor();
        if (screenshot) await pictures(page, `${screenshot}.account.png`);
        const before = await page.textContent('main');
        await press(page, selector);
        await button.waitFor({ state: 'detached' });
        return JSON.stringify({ before, after: await page.textContent('main') });
    } finally {
        await context.close();
    }
}

// Opens both pages of the server, and then pages of another port and of another site, which know everything that is in the pages.
async function attack(account, authorization) {
    const attacker = createServer((request, response) => response.setHeader('content-type', 'text/html').end('<body></body>'));
    attacker.listen(0);
    await once(attacker, 'listening');
    const context = await browser.newContext();
    try {
        const [one, two] = [await context.newPage(), await context.newPage()];
        await one.goto(account);
        await logIn(one);
        const opened = await one.getAttribute('input[name=account]', 'value');
        await two.goto(authorization);
        const request = await two.getAttribute('input[name=request]', 'value');
        const forms = {
            account: [account, { account: opened, end: 'all' }],
            consent: [`${authorizationServer}/authorize`, { request, decision: 'approve', 'scope-0': 'yes', 'scope-1': 'yes' }],
        };
        const outcomes = {};
        for (const host of ['127.0.0.1', 'localhost']) {
            const origin = `http://${host}:${attacker.address().port}/`;
            const visit = async () => {
                const page = await context.newPage();
                page.setDefaultTimeout(15_000);
                await page.goto(origin);
                return page;
            };
            for (const [name, [action, fields]] of Object.entries(forms)) {
                const page = await visit();
                const answered = page.waitForResponse(response => response.request().method() === 'POST');
                await page.evaluate(([action, fields]) => {
                    const form = Object.assign(document.createElement('form'), { action, method: 'post' });
                    for (const [name, value] of Object.entries(fields)) form.append(Object.assign(document.createElement('input'), { name, value }));
                    document.body.append(form);
                    form.submit();
                }, [action, fields]);
                outcomes[`${name} ${host}`] = (await answered).status();
            }
            const page = await visit();
            const read = await page.evaluate(
                url => fetch(url, { credentials: 'include', signal: AbortSignal.timeout(10_000) }).then(
                    response => response.status,
                    error => (error.name === 'TimeoutError' ? 'late' : 'refused'),
                ),
                authorization,
            );
            const frame = page.waitForResponse(authorization);
            await page.evaluate(src => document.body.append(Object.assign(document.createElement('iframe'), { src })), authorization);
            await frame;
            await page.waitForTimeout(500);
            const framed = await Promise.all(page.frames().slice(1).map(frame => frame.locator('button').count()));
            outcomes[`read ${host}`] = read;
            outcomes[`buttons ${host}`] = framed.reduce((sum, count) => sum + count, 0);
        }
        return JSON.stringify(outcomes);
    } finally {
        await context.close();
        attacker.close();
    }
}

const robot = await generateKeyPair('ES256', { extractable: true });
const jwks = JSON.stringify({ keys: [await exportJWK(robot.publicKey)] });
console.log(JSON.stringify({ issuer, user: `${issuer}/user`, robot: { key: await exportPKCS8(robot.privateKey), jwks } }));
