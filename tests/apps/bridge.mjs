// Shows a page with the bridge in a host on the official library.
//
//     node bridge.mjs CHROMIUM PAGE
//
// PAGE is the file of the page, with the bridge in it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { build } from 'esbuild';
import { eventually, launch, run, validate } from './common.mjs';

const [chromium, file] = process.argv.slice(2);
const html = readFileSync(file, 'utf8');
const { outputFiles } = await build({ entryPoints: ['host.mjs'], bundle: true, format: 'esm', write: false, target: 'es2022' });
const browser = await launch(chromium);
const tab = await browser.newPage();
const errors = [];
tab.on('pageerror', error => errors.push(error.message));
await tab.setContent(`<!doctype html><body><script type="module">${outputFiles[0].text.replaceAll('</script', '<\\/script')}</script>`);
await tab.waitForFunction(() => window.host);
await tab.evaluate(html => host.show(html), html);
const page = await eventually(() => tab.frames().find(frame => frame.name() === 'page') ?? assert.fail('no frame'));
const events = kind => page.evaluate(kind => events.filter(([name]) => name === kind).map(([, value]) => value), kind);
const received = kind => tab.evaluate(kind => host.received.filter(([name]) => name === kind).map(([, params]) => params), kind);
const send = (method, params) => tab.evaluate(([method, params]) => host.bridge[method](params), [method, params]);
const notes = ['Milk', 'Bread'];

await run({
    'the handshake declares the page and what it supports': async () => {
        const { app, capabilities } = await tab.evaluate(() => ({ app: host.app, capabilities: host.capabilities }));
        assert.deepEqual(app, { name: 'test-page', version: '1.2.3' });
        assert.deepEqual(capabilities, { availableDisplayModes: ['inline', 'fullscreen'] });
        const ready = await page.evaluate(() => app.ready);
        assert.equal(ready.hostInfo.name, 'official');
        assert.equal(await page.evaluate(() => mcp.app() === app), true);
    },
    'input, partial input and the result reach the page in order': async () => {
        await send('sendToolInputPartial', { arguments: { que: 'm' } });
        await send('sendToolInput', { arguments: { query: 'milk' } });
        await send('sendToolResult', { content: [], structuredContent: { notes } });
        await eventually(async () => assert.equal((await events('result')).length, 1));
        const order = await page.evaluate(() => events.filter(([name]) => name !== 'context'));
        assert.deepEqual(order.map(([name]) => name), ['partial-input', 'input', 'result']);
        assert.deepEqual(order[0][1], { que: 'm' });
        assert.deepEqual(order[1][1], { query: 'milk' });
        assert.deepEqual(await page.locator('li').allTextContents(), notes);
    },
    'a late handler gets the latest event': async () => {
        const late = await page.evaluate(() => {
            const late = [];
            app.on('result', result => late.push(result.structuredContent.notes));
            app.on('partial-input', () => late.push('partial input after the input'));
            return late;
        });
        assert.deepEqual(late, [notes]);
    },
    'a cancelled call reaches the page': async () => {
        await send('sendToolCancelled', { reason: 'the user' });
        await eventually(async () => assert.deepEqual(await events('cancelled'), [{ reason: 'the user' }]));
    },
    'an exception in a handler does not stop the others': async () => {
        await page.evaluate(() => {
            window.after = [];
            let isLate = true;
            app.on('cancelled', () => { if (!isLate) throw new Error('a broken handler'); });
            app.on('cancelled', () => after.push('called'));
            isLate = false;
        });
        await send('sendToolCancelled', {});
        await eventually(async () => assert.equal(await page.evaluate(() => after.length), 2));
        await eventually(async () => assert.ok(errors.splice(0).some(error => error.includes('a broken handler'))));
    },
    'the page calls tools and reads resources': async () => {
        await page.fill('input', 'Eggs');
        await page.click('button');
        await eventually(async () => assert.deepEqual(await page.locator('li').allTextContents(), ['add_note']));
        assert.deepEqual(await received('call'), [{ name: 'add_note', arguments: { title: 'Eggs' } }]);
        assert.equal((await page.evaluate(() => app.read('notes://1'))).contents[0].text, 'read');
        assert.deepEqual(await received('read'), [{ uri: 'notes://1' }]);
    },
    'the value of a result is the same in all revisions': async () => {
        for (const [structuredContent, value] of [
            [{ notes }, { notes }], [{ result: notes }, notes], [notes, notes], ['text', 'text'], [['result'], ['result']],
            [{ result: 1, more: 2 }, { result: 1, more: 2 }], [undefined, undefined], [null, null],
        ]) {
            await tab.evaluate(answer => (host.answer = answer), { content: [], structuredContent });
            assert.deepEqual(await page.evaluate(async () => (await app.call('as_set')).value), value);
        }
    },
    'an error response rejects the call': async () => {
        const error = await page.evaluate(() => app.call('broken').catch(error => [error.message, error.code]));
        assert.match(error[0], /the tool is broken/);
        assert.equal(typeof error[1], 'number');
    },
    'the page talks to the model, the user and the log': async () => {
        await page.evaluate(async () => {
            await app.updateModelContext('three notes');
            await app.updateModelContext({ structuredContent: { notes: 3 } });
            await app.sendMessage('Summarize my notes');
            await app.openLink(new URL('https://example.com/a b'));
            await app.log('info', { drawn: 3 });
        });
        assert.deepEqual(await received('context'), [
            { content: [{ type: 'text', text: 'three notes' }] },
            { structuredContent: { notes: 3 } },
        ]);
        assert.deepEqual(await received('message'), [{ role: 'user', content: [{ type: 'text', text: 'Summarize my notes' }] }]);
        assert.deepEqual(await received('link'), [{ url: 'https://example.com/a%20b' }]);
        await eventually(async () => assert.deepEqual(await received('log'), [{ level: 'info', data: { drawn: 3 } }]));
    },
    'display modes that the host lacks are not requested': async () => {
        assert.equal(await page.evaluate(() => app.requestDisplayMode('pip')), 'inline');
        assert.equal(await page.evaluate(() => app.requestDisplayMode('fullscreen')), 'fullscreen');
        assert.deepEqual(await received('mode'), [{ mode: 'fullscreen' }]);
        assert.equal(await page.evaluate(() => app.context.displayMode), 'fullscreen');
    },
    'theme, variables and fonts of the host are applied, and changes are merged': async () => {
        const style = () => page.evaluate(() => {
            const root = getComputedStyle(document.documentElement);
            return [
                document.documentElement.dataset.theme, getComputedStyle(document.body).color,
                root.getPropertyValue('--color-text-primary'), document.getElementById('mcp-fonts')?.textContent, app.context.locale,
            ];
        });
        const fonts = '@font-face { font-family: "Test" }';
        assert.deepEqual(await style(), ['dark', 'rgb(238, 238, 238)', 'rgb(1, 2, 3)', fonts, 'de-CH']);
        const before = (await events('context')).length;
        await tab.evaluate(() => host.bridge.sendHostContextChange({ theme: 'light' }));
        await eventually(async () => assert.equal((await events('context')).length, before + 1));
        assert.deepEqual(await style(), ['light', 'rgb(17, 17, 17)', 'rgb(1, 2, 3)', fonts, 'de-CH']);
    },
    'the size of the content is reported when it changes': async () => {
        const [first] = await received('size');
        assert.ok(first.width > 0 && first.height > 0);
        const count = (await received('size')).length;
        await page.evaluate(() => Object.assign(document.body.appendChild(document.createElement('div')).style, { height: '700px' }));
        await eventually(async () => assert.ok((await received('size')).at(-1).height > 700));
        await page.evaluate(() => (document.body.dataset.unrelated = 'x'));
        await new Promise(resolve => setTimeout(resolve, 200));
        assert.equal((await received('size')).length, count + 1);
    },
    'requests of the host are answered': async () => {
        assert.deepEqual(await tab.evaluate(() => host.bridge.request({ method: 'ping' })), {});
        const error = await tab.evaluate(() => host.bridge.listTools({}).catch(error => [error.code, error.message]));
        assert.equal(error[0], -32601);
    },
    'the host waits for the page before it removes it': async () => {
        await page.evaluate(() => {
            window.order = [];
            app.on('teardown', () => new Promise(resolve => setTimeout(() => resolve(order.push('saved')), 50)));
        });
        assert.deepEqual(await send('teardownResource', {}), {});
        assert.deepEqual(await page.evaluate(() => order), ['saved']);
        await page.evaluate(() => app.on('teardown', () => Promise.reject(new Error('not saved'))));
        const failed = await tab.evaluate(() => host.bridge.teardownResource({}).catch(error => [error.code, error.message]));
        assert.equal(failed[0], -32000);
        assert.match(failed[1], /not saved/);
    },
    'messages of other windows are ignored': async () => {
        const forged = { jsonrpc: '2.0', method: 'ui/notifications/tool-result', params: { content: [], structuredContent: { notes: ['forged'] } } };
        const before = (await events('result')).length;
        await tab.evaluate(message => host.forge(message), forged);
        await tab.evaluate(() => host.bridge.request({ method: 'ping' }));
        assert.equal((await events('result')).length, before);
    },
    'a page without a host says so': async () => {
        const alone = await browser.newPage();
        await alone.setContent(html);
        const why = await alone.evaluate(() => app.call('undo').catch(error => error.message));
        assert.equal(why, 'the page is not shown by an MCP host');
    },
    'the messages conform to the schemas of the npm package': async () => {
        const seen = validate(await tab.evaluate(() => host.messages));
        assert.ok(seen.size >= 14, `only ${[...seen.keys()]}`);
        assert.deepEqual(errors, []);
    },
});
await browser.close();
