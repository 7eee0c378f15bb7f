// Shows the page of an example in a host on the official library, and takes its picture in light and dark.
//
//     node examples.mjs CHROMIUM EXAMPLE PICTURES COMMAND [ARGUMENT]…
//
// COMMAND starts the server of the example. PICTURES is the directory of the picture, or `-`.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { build } from 'esbuild';
import { eventually, launch, run, validate } from './common.mjs';

const MIME_TYPE = 'text/html;profile=mcp-app';
const EXTENSION = { 'io.modelcontextprotocol/ui': { mimeTypes: [MIME_TYPE] } };

const note = (title, body, tags) => ({ name: 'add_note', arguments: { title, body, tags } });

// Per example: calls that prepare it, the tool to show, and what the user does on its page.
const EXAMPLES = {
    notes: {
        before: [
            note('Shopping', 'Milk, bread,\ntwo lemons', ['errands']),
            note('Talk', 'Slides until Thursday', ['work', 'urgent']),
            note('Ideas', 'A page for each tool that shows something', ['work']),
        ],
        tool: 'show_board',
        label: 'The board of the example notes, in light and dark',
        async act(page) {
            await page.fill('input[name=title]', 'Call Ada');
            await page.click('form button');
            await page.waitForSelector('article:nth-child(4)');
        },
    },
    dashboard: {
        before: [{ name: 'record_figure', arguments: { metric: 'visitors', value: 870 } }],
        tool: 'show_dashboard',
        arguments: { metric: 'visitors', days: 30 },
        label: 'The chart of the example dashboard, in light and dark',
        async act(page) {
            await page.selectOption('select', 'revenue');
            await page.waitForSelector('svg[aria-label^="revenue"]');
            await page.click('button[value="7"]');
            await page.waitForSelector('svg[aria-label="revenue, 7 days"]');
            await page.hover('svg');
            await page.waitForSelector('circle');
        },
    },
    test: {
        before: [],
        tool: 'show_notes',
        label: 'Notes',
        async act(page) {
            await page.fill('input', 'Eggs');
            await page.click('button');
            await page.waitForSelector('li:nth-child(3)');
        },
    },
};

// Adds the policy that a host derives from what a page declares. The official library leaves it to hosts.
function restricted(html, { connectDomains = [], resourceDomains = [] } = {}) {
    const from = (...sources) => sources.join(' ') || "'none'";
    const resources = from("'unsafe-inline'", ...resourceDomains);
    const policy = `default-src 'none'; script-src ${resources}; style-src ${resources}; img-src ${from('data:', ...resourceDomains)}; connect-src ${from(...connectDomains)}`;
    return html.replace(/^<!doctype html>/i, start => `${start}<meta http-equiv="Content-Security-Policy" content="${policy}">`);
}

const [chromium, name, pictures, command, ...args] = process.argv.slice(2);
const example = EXAMPLES[name];

async function connect(extensions) {
    const client = new Client({ name: 'host', version: '1.0.0' }, { capabilities: { extensions } });
    await client.connect(new StdioClientTransport({ command, args, stderr: 'inherit' }));
    return client;
}

const client = await connect(EXTENSION);
for (const call of example.before) await client.callTool(call);
const browser = await launch(chromium);
const WIDTH = 480;
const tab = await browser.newPage({ viewport: { width: WIDTH, height: 600 } });
const errors = [];
tab.on('pageerror', error => errors.push(error.message));
tab.on('console', message => message.type() === 'error' && errors.push(message.text()));
let tool, page;
const picture = () => tab.locator('iframe').screenshot({ animations: 'disabled' });
const setTheme = async theme => {
    await tab.evaluate(theme => {
        document.documentElement.style.colorScheme = theme;
        return host.bridge.sendHostContextChange({ theme });
    }, theme);
    await eventually(async () => assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), theme));
    return picture();
};

// Writes both pictures side by side as one file, which documentation can contain as it is.
async function write(label, images) {
    const { height } = await tab.locator('iframe').boundingBox();
    const [gap, inner] = [16, images.map(image => `href="data:image/png;base64,${image.toString('base64')}"`)];
    const parts = inner.map((href, at) => `<image x="${at * (WIDTH + gap)}" width="${WIDTH}" height="${height}" ${href}/>`);
    const box = `viewBox="0 0 ${2 * WIDTH + gap} ${height}"`;
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" ${box} role="img" aria-label="${label}">${parts.join('')}</svg>\n`;
    writeFileSync(`${pictures}/page_${name}.svg`, svg);
}

await run({
    'the page of the tool is shown': async () => {
        tool = (await client.listTools()).tools.find(tool => tool.name === example.tool);
        const uri = tool._meta.ui.resourceUri;
        const [contents] = (await client.readResource({ uri })).contents;
        assert.equal(contents.mimeType, MIME_TYPE);
        const input = example.arguments ?? {};
        const result = await client.callTool({ name: tool.name, arguments: input });
        assert.ok(result.content.length > 0, 'the result has text for clients without pages');
        const { outputFiles } = await build({ entryPoints: ['host.mjs'], bundle: true, format: 'esm', write: false, target: 'es2022' });
        await tab.exposeFunction('callTool', params => client.callTool(params));
        await tab.exposeFunction('readResource', params => client.readResource(params));
        await tab.setContent(
            `<!doctype html><style>body { margin: 0; background: light-dark(#fff, #1e1e1e) } iframe { width: 100%; border: 0; display: block }</style><body>` +
                `<script type="module">${outputFiles[0].text.replaceAll('</script', '<\\/script')}</script>`,
        );
        await tab.waitForFunction(() => window.host);
        await tab.evaluate(html => host.show(html, { answers: { oncalltool: callTool, onreadresource: readResource } }), restricted(contents.text, contents._meta?.ui?.csp));
        page = tab.frames().find(frame => frame.name() === 'page');
        await tab.evaluate(input => host.bridge.sendToolInput({ arguments: input }), input);
        await tab.evaluate(result => host.bridge.sendToolResult(result), result);
        await eventually(async () => assert.ok((await page.evaluate(() => document.body.innerText)).trim()));
    },
    'light and dark differ': async () => {
        const [dark, light] = [await setTheme('dark'), await setTheme('light')];
        assert.ok(!dark.equals(light));
        if (pictures !== '-') await write(example.label, [light, dark]);
    },
    'the page calls a tool, and the picture changes': async () => {
        const before = await picture();
        await example.act(page);
        await eventually(async () => assert.ok(!(await picture()).equals(before)));
        const calls = await tab.evaluate(() => host.messages.filter(([, { method }]) => method === 'tools/call').length);
        assert.ok(calls > 0);
    },
    'the messages conform to the schemas of the npm package': async () => {
        assert.ok(validate(await tab.evaluate(() => host.messages)).size >= 6);
        assert.deepEqual(errors, []);
    },
    'a request to a foreign domain is blocked': async () => {
        const directive = await page.evaluate(() => new Promise(resolve => {
            addEventListener('securitypolicyviolation', event => resolve(event.effectiveDirective));
            fetch('https://foreign.example/').catch(() => undefined);
        }));
        assert.equal(directive, 'connect-src');
    },
    'a client without the extension sees text': async () => {
        const plain = await connect({});
        const tools = (await plain.listTools()).tools;
        const visibility = tools.flatMap(tool => tool._meta?.ui?.visibility ?? []);
        assert.ok(!visibility.includes('app') || visibility.includes('model'), 'tools for pages only are not listed');
        const { content } = await plain.callTool({ name: example.tool, arguments: example.arguments ?? {} });
        assert.ok(content.some(({ type, text }) => type === 'text' && text.length > 0));
        await plain.close();
    },
});
await browser.close();
await client.close();
