// Opens the host of `cargo mcp app` with a page that behaves well, and then badly.
//
//     node app.mjs CHROMIUM FORBIDDEN HOST_URL
//
// FORBIDDEN is the URL of a server on this machine that the page must not reach; it allows every origin, and its path `/seen`
// returns how often it was reached.
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { eventually, launch, run, validate } from './common.mjs';

const [chromium, forbidden, url] = process.argv.slice(2);
const browser = await launch(chromium);
const context = await browser.newContext({ colorScheme: 'light', viewport: { width: 1200, height: 800 } });
const tab = await context.newPage();
await tab.goto(url);
const view = async () => {
    const frame = await eventually(() => tab.frames().find(frame => frame.url() === 'about:srcdoc') ?? assert.fail('no page'));
    await frame.waitForSelector('li');
    return frame;
};
let page = await view();
const log = () => tab.locator('#log details').evaluateAll(all =>
    all.map(({ children: [summary, json] }) => [summary.textContent, JSON.parse(json.textContent)]).reverse());
const notes = () => page.locator('li').allTextContents();
// The number of results that the page has received.
const results = () => page.evaluate(() => events.filter(([kind]) => kind === 'result').length);

// Sends a request with other headers than a browser would.
const raw = (path, { method = 'GET', headers = {}, port = new URL(url).port } = {}) =>
    new Promise((resolve, reject) => {
        request({ host: '127.0.0.1', port, path, method, headers }, response => {
            let body = '';
            response.on('data', chunk => (body += chunk)).on('end', () => resolve({ status: response.statusCode, headers: response.headers, body }));
        }).on('error', reject).end(method === 'POST' ? '{"method":"tools/call","params":{"name":"undo"}}' : undefined);
    });

await run({
    'the result of the call is shown': async () => {
        assert.deepEqual(await notes(), ['Milk']);
        assert.match(await tab.textContent('#title'), /notes: show_notes \(ui:\/\/notes\/board\)/);
        const kinds = (await log()).map(([kind]) => kind);
        const order = [
            '← ui/notifications/sandbox-proxy-ready', '→ ui/notifications/sandbox-resource-ready', '← ui/initialize',
            '← ui/notifications/initialized', '→ ui/notifications/tool-input', '→ ui/notifications/tool-result',
        ];
        assert.deepEqual(kinds.filter(kind => order.includes(kind)), order);
        const input = await page.evaluate(() => events.find(([kind]) => kind === 'input')[1]);
        assert.deepEqual(input, { query: 'Milk' });
    },
    'the height follows the content, and the border is drawn': async () => {
        const height = () => tab.evaluate(() => document.getElementById('view').clientHeight);
        const content = () => page.evaluate(() => Math.ceil(document.documentElement.getBoundingClientRect().height));
        await eventually(async () => assert.equal(await height(), await content()));
        assert.equal(await tab.evaluate(() => document.getElementById('view').className), 'border');
    },
    'calls of the page reach the server, and the page changes': async () => {
        await page.fill('input', 'Eggs');
        await page.click('button');
        await eventually(async () => assert.deepEqual(await notes(), ['Milk', 'Bread', 'Eggs']));
        const undone = await page.evaluate(() => app.call('undo'));
        assert.deepEqual(undone.structuredContent.notes, ['Milk', 'Bread']);
        assert.deepEqual((await page.evaluate(() => app.call('list_titles'))).value, ['Milk', 'Bread']);
        assert.equal((await page.evaluate(() => app.read('ui://notes/board'))).contents[0].mimeType, 'text/html;profile=mcp-app');
    },
    'only tools that are visible to pages can be called': async () => {
        for (const [name, why] of [['clear_notes', /not visible to pages/], ['unknown', /unknown tool/]]) {
            assert.match(await page.evaluate(name => app.call(name).catch(error => error.message), name), why);
        }
        assert.deepEqual((await page.evaluate(() => app.call('show_notes'))).structuredContent.notes, ['Milk', 'Bread']);
        assert.match(await page.evaluate(() => app.request('prompts/list', {}).catch(error => error.message)), /unknown method/);
    },
    'light and dark, and widths, reach the page': async () => {
        const color = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        assert.equal(await color(), 'rgb(255, 255, 255)');
        await tab.selectOption('#theme', 'dark');
        await eventually(async () => assert.equal(await color(), 'rgb(34, 34, 34)'));
        await tab.selectOption('#width', '480px');
        await eventually(async () => assert.equal(await page.evaluate(() => app.context.containerDimensions.width), 478));
        await eventually(async () => assert.equal(await page.evaluate(() => innerWidth), 478));
    },
    'messages, the context of the model and display modes are answered': async () => {
        await page.evaluate(async () => {
            await app.sendMessage('Hello');
            await app.updateModelContext('two notes');
            await app.log('info', 'drawn');
        });
        assert.equal(await page.evaluate(() => app.requestDisplayMode('fullscreen')), 'fullscreen');
        assert.equal(await tab.evaluate(() => document.getElementById('view').className), 'border fullscreen');
        assert.equal(await page.evaluate(() => app.requestDisplayMode('inline')), 'inline');
        tab.once('dialog', dialog => dialog.dismiss());
        assert.match(await page.evaluate(() => app.openLink('https://example.com').catch(error => error.message)), /not opened/);
        assert.match(await page.evaluate(() => app.openLink('file:///etc/passwd').catch(error => error.message)), /only http/);
    },
    'the page gets only display modes that it has declared, and the log stays visible': async () => {
        assert.deepEqual(await page.evaluate(() => app.request('ui/request-display-mode', { mode: 'pip' })), { mode: 'inline' });
        await page.evaluate(() => app.requestDisplayMode('fullscreen'));
        const right = await tab.evaluate(() => document.getElementById('view').getBoundingClientRect().right);
        assert.equal(right, await tab.evaluate(() => document.getElementById('log').getBoundingClientRect().left));
        await page.evaluate(() => app.request('ui/initialize', {
            protocolVersion: '2026-01-26', appInfo: { name: 'test', version: '1' }, appCapabilities: { availableDisplayModes: ['inline'] },
        }));
        const mode = await page.evaluate(() => app.request('ui/request-display-mode', { mode: 'fullscreen' }));
        assert.deepEqual(mode, { mode: 'inline' });
        assert.equal(await tab.evaluate(() => document.getElementById('view').className), 'border');
        const before = await results();
        await page.evaluate(() => app.notify('ui/notifications/initialized', {}));
        // What the host sends in response would otherwise reach the page of the next test.
        await eventually(async () => assert.equal(await results(), before + 1));
    },
    'a page that reloads itself is filled again': async () => {
        await page.evaluate(() => { setTimeout(() => location.reload()); });
        await eventually(async () => assert.equal(await results(), 1));
        assert.deepEqual(await notes(), ['Milk']);
    },
    'errors of the server keep their code, and summaries are short': async () => {
        const error = await page.evaluate(() => app.read('ui://notes/missing').catch(({ code, data }) => ({ code, data })));
        assert.deepEqual(error, { code: -32002, data: { uri: 'ui://notes/missing' } });
        await page.evaluate(() => app.request('x'.repeat(10_000), {}).catch(() => undefined));
        assert.equal(Math.max(...(await log()).map(([kind]) => kind.length)), 200);
    },
    'the page is isolated': async () => {
        const blocked = await page.evaluate(async forbidden => {
            const attempt = async action => { try { await action(); return 'done'; } catch (error) { return error.name; } };
            const load = tag => new Promise((resolve, reject) => {
                const element = document.createElement(tag);
                Object.assign(element, { src: forbidden, onload: resolve, onerror: () => reject(new Error('blocked')) });
                document.body.append(element);
            });
            return {
                fetch: await attempt(() => fetch(forbidden)),
                image: await attempt(() => load('img')),
                script: await attempt(() => load('script')),
                socket: await attempt(() => new Promise((resolve, reject) => {
                    const socket = new WebSocket(forbidden.replace('http', 'ws'));
                    Object.assign(socket, { onopen: resolve, onerror: () => reject(new TypeError()) });
                })),
                host: await attempt(() => top.document.body),
                sandbox: await attempt(() => parent.document.body),
                cookies: await attempt(() => document.cookie),
                storage: await attempt(() => localStorage),
                popup: await attempt(() => { if (!open(forbidden)) throw new TypeError(); }),
                navigatedTop: await attempt(() => (top.location.href = forbidden)),
            };
        }, forbidden);
        for (const [what, outcome] of Object.entries(blocked)) assert.notEqual(outcome, 'done', what);
        await page.evaluate(forbidden => {
            navigator.sendBeacon(forbidden);
            document.body.append(Object.assign(document.createElement('iframe'), { src: forbidden }));
        }, forbidden);
        await new Promise(resolve => setTimeout(resolve, 300));
        assert.equal(tab.url(), url);
        assert.equal(await (await fetch(`${forbidden}/seen`)).text(), '0');
    },
    'messages past the sandbox are ignored': async () => {
        const before = (await log()).length;
        await page.evaluate(() => {
            top.postMessage({ jsonrpc: '2.0', id: 99, method: 'tools/call', params: { name: 'undo', arguments: {} } }, '*');
            parent.postMessage({ jsonrpc: '2.0', method: 'ui/notifications/sandbox-proxy-ready', params: {} }, '*');
        });
        await new Promise(resolve => setTimeout(resolve, 200));
        assert.equal((await log()).length, before);
    },
    'a reload ends the page, and reads it again': async () => {
        await tab.evaluate(() => { for (let click = 0; click < 2; click += 1) document.getElementById('reload').click(); });
        await eventually(async () => assert.ok((await log()).some(([kind]) => kind === '→ ui/resource-teardown')));
        await eventually(() => assert.ok(page.isDetached()));
        page = await view();
        assert.equal((await log()).filter(([kind]) => kind === '→ ui/resource-teardown').length, 1);
        assert.equal(await tab.locator('#view iframe').count(), 1);
        assert.deepEqual(await notes(), ['Milk']);
    },
    'the messages conform to the schemas of the npm package': async () => {
        const logged = (await log()).map(([kind, message]) => [kind.startsWith('→') ? 'to the page' : 'from the page', message]);
        assert.ok(validate(logged).size >= 14);
    },
    'a page that leaves its place reaches nothing': async () => {
        const ways = [
            forbidden => { location.href = forbidden; },
            forbidden => document.body.appendChild(Object.assign(document.createElement('form'), { action: forbidden })).submit(),
        ];
        for (const way of ways) {
            await page.evaluate(way, forbidden).catch(() => undefined);
            await new Promise(resolve => setTimeout(resolve, 300));
            assert.equal(await (await fetch(`${forbidden}/seen`)).text(), '0');
            await tab.click('#reload');
            await eventually(() => assert.ok(page.isDetached()));
            page = await view();
        }
    },
    'other websites do not reach the host': async () => {
        const { host, pathname, origin } = new URL(url);
        const sandbox = new URL(await tab.evaluate(() => SANDBOX));
        const policy = await raw(sandbox.pathname, { port: sandbox.port, headers: { host: sandbox.host } });
        assert.match(policy.headers['content-security-policy'], new RegExp(`frame-ancestors ${origin}$`));
        assert.equal((await raw(pathname, { headers: { host } })).status, 200);
        for (const [path, options, status] of [
            ['/', { headers: { host } }, 404],
            [pathname.replace(/.\/$/, letter => `${letter[0] === '0' ? 1 : 0}/`), { headers: { host } }, 404],
            [pathname, { headers: { host: `rebound.example:${new URL(url).port}` } }, 403],
            [sandbox.pathname, { port: sandbox.port, headers: { host: 'rebound.example' } }, 403],
            [sandbox.pathname, { headers: { host } }, 404],
            ['/request', { method: 'POST', headers: { host, origin } }, 404],
            [`${pathname}request`, { method: 'POST', headers: { host, origin: 'https://evil.example' } }, 403],
            [`${pathname}request`, { method: 'POST', headers: { host, origin: sandbox.origin } }, 403],
            [`${pathname}request`, { method: 'POST', headers: { host, origin: 'null' } }, 403],
            [`${pathname}view`, { method: 'POST', headers: { host: 'rebound.example', origin } }, 403],
            [`${pathname}request`, { method: 'POST', headers: { host, origin } }, 200],
        ]) {
            assert.equal((await raw(path, options)).status, status, `${path} ${JSON.stringify(options)}`);
        }
        // A website can neither embed the host nor the sandbox.
        const evil = await context.newPage();
        await evil.goto(forbidden);
        for (const embedded of [url, sandbox.href]) {
            const loaded = await evil.evaluate(async src => {
                const frame = Object.assign(document.createElement('iframe'), { src });
                const messages = [];
                addEventListener('message', ({ data }) => messages.push(data));
                const done = new Promise(resolve => (frame.onload = resolve));
                document.body.append(frame);
                await done;
                return messages;
            }, embedded);
            assert.deepEqual(loaded, []);
        }
    },
});
await browser.close();
