// A user with a browser.
//
//     node user.mjs CHROMIUM
//
// Prints one line of JSON: `user`, the URL to which a client posts the URL of an authorization request. The user opens it in headless
// Chromium, logs in with the name in the query parameter `name`, gives consent unless the parameter `refuse` is present, and the
// response is the URL to which the browser is redirected.
import { createServer } from 'node:http';
import { once } from 'node:events';
import { chromium } from 'playwright-core';

const [executablePath] = process.argv.slice(2);
const browser = await chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking', '--disable-component-update'],
});

const server = createServer();
server.on('request', user);
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const address = `http://127.0.0.1:${server.address().port}`;

// Opens the URL in the body of a request as the user would.
async function user(request, response) {
    try {
        const options = new URL(request.url, address).searchParams;
        let url = '';
        for await (const chunk of request) url += chunk;
        response.end(await authorize(url, options.get('name') ?? 'ada', options.has('refuse')));
    } catch (error) {
        console.error(error);
        response.writeHead(500).end(String(error));
    }
}

async function authorize(url, name, refuses) {
    const issuer = new URL(url).origin;
    const context = await browser.newContext();
    try {
        const page = await context.newPage();
        page.setDefaultTimeout(15_000);
        // The client's redirect URI may belong to nobody: the redirection is all that counts.
        const redirected = new Promise(resolve =>
            page.on('request', request => {
                if (request.isNavigationRequest() && !request.url().startsWith(`${issuer}/`)) resolve(request.url());
            }),
        );
        const opened = page.goto(url).then(() => undefined, error => error);
        const error = await Promise.race([redirected, opened]); // redirected at once if the request is invalid
        if (error) return await redirected;
        await page.fill('input[name=login]', name);
        await page.fill('input[name=password]', 'a password');
        await page.click('button[type=submit]');
        await page.waitForSelector('form input[name=prompt][value=consent]', { state: 'attached' });
        if (refuses) await page.click('a:has-text("Cancel")');
        else await page.click('button[type=submit]');
        return await redirected;
    } finally {
        await context.close();
    }
}

console.log(JSON.stringify({ user: `${address}/user` }));
