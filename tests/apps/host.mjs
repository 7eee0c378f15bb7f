// A host of pages on the official library, for the browser. `window.host` is what the test in `bridge.mjs` uses.
import { AppBridge, PostMessageTransport } from '@modelcontextprotocol/ext-apps/app-bridge';

const received = []; // the page's requests as the library hands them on
const messages = []; // [direction, message]
const note = (kind, answer) => async params => {
    received.push([kind, params]);
    return typeof answer === 'function' ? answer(params) : answer;
};

const STYLES = {
    variables: { '--color-text-primary': 'rgb(1, 2, 3)' },
    css: { fonts: '@font-face { font-family: "Test" }' },
};

// Shows a page. `answers` replaces the functions below that answer its requests.
async function show(html, { answers = {}, ...context } = { styles: STYLES }) {
    const iframe = document.createElement('iframe');
    iframe.setAttribute('sandbox', 'allow-scripts allow-forms');
    iframe.name = 'page';
    document.body.append(iframe);
    addEventListener('message', event => {
        if (event.source === iframe.contentWindow) messages.push(['from the page', event.data]);
    });
    const capabilities = { openLinks: {}, serverTools: {}, serverResources: {}, logging: {} };
    const bridge = new AppBridge(null, { name: 'official', version: '2.0.0' }, capabilities, {
        hostContext: {
            theme: 'dark', displayMode: 'inline', availableDisplayModes: ['inline', 'fullscreen'], locale: 'de-CH',
            ...context,
        },
    });
    bridge.oncalltool = note('call', ({ name }) => {
        if (name === 'broken') throw Object.assign(new Error('the tool is broken'), { code: -32602 });
        if (name === 'as_set') return host.answer;
        return { content: [{ type: 'text', text: 'called' }], structuredContent: { notes: [name] } };
    });
    bridge.onreadresource = note('read', ({ uri }) => ({ contents: [{ uri, mimeType: 'text/plain', text: 'read' }] }));
    bridge.onupdatemodelcontext = note('context', {});
    bridge.onmessage = note('message', {});
    bridge.onopenlink = note('link', {});
    bridge.onrequestdisplaymode = note('mode', ({ mode }) => ({ mode }));
    bridge.onloggingmessage = note('log');
    bridge.onsizechange = params => {
        received.push(['size', params]);
        iframe.style.height = `${params.height}px`;
    };
    Object.assign(bridge, answers);
    const initialized = new Promise(resolve => (bridge.oninitialized = resolve));
    const transport = new PostMessageTransport(iframe.contentWindow, iframe.contentWindow);
    const send = transport.send.bind(transport);
    transport.send = message => {
        messages.push(['to the page', JSON.parse(JSON.stringify(message))]);
        return send(message);
    };
    await bridge.connect(transport);
    iframe.srcdoc = html;
    await initialized;
    Object.assign(host, { bridge, iframe, app: bridge.getAppVersion(), capabilities: bridge.getAppCapabilities() });
}

// Sends a message to the page from a window that is not its host.
async function forge(message) {
    const stranger = document.createElement('iframe');
    stranger.srcdoc = `<script>parent.frames[0].postMessage(${JSON.stringify(message)}, '*'); parent.postMessage('forged', '*')</script>`;
    const forged = new Promise(resolve => addEventListener('message', ({ data }) => data === 'forged' && resolve()));
    document.body.append(stranger);
    await forged;
}

const host = { show, forge, received, messages };
window.host = host;
