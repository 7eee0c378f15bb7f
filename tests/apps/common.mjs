// What the tests of pages share: a browser, checks, and the schemas of the npm package.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import assert from 'node:assert/strict';
import Ajv from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { chromium } from 'playwright-core';

const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking', '--disable-component-update'];

export const launch = executablePath => chromium.launch({ executablePath, args: FLAGS });

// Runs checks in order, and prints one line for each.
export async function run(checks) {
    let failed = 0;
    for (const [name, check] of Object.entries(checks)) {
        try {
            await check();
            console.log(`ok: ${name}`);
        } catch (error) {
            failed += 1;
            console.log(`FAILED: ${name}\n${error.stack ?? error}`);
        }
    }
    console.log(`${Object.keys(checks).length - failed} passed, ${failed} failed`);
    process.exitCode = failed ? 1 : 0;
}

// Waits until a function returns a value without an exception.
export async function eventually(check, limit = 5000) {
    const end = Date.now() + limit;
    for (;;) {
        try {
            return await check();
        } catch (error) {
            if (Date.now() > end) throw error;
            await new Promise(resolve => setTimeout(resolve, 20));
        }
    }
}

const schema = JSON.parse(readFileSync(createRequire(import.meta.url).resolve('@modelcontextprotocol/ext-apps/schema.json')));
const ajv = new Ajv({ strict: false, allErrors: true });
addFormats(ajv);
const validators = {}; // compiled when they are needed; each definition is a document of its own
const OF_METHOD = {}; // the name of the definition for a request or notification
for (const [name, { properties }] of Object.entries(schema.$defs)) {
    if (properties?.method?.const) OF_METHOD[properties.method.const] = name;
}

// No message conforms to two parts of the file, which is generated: it demands every style variable although each is optional, and it
// closes each alternative of `containerDimensions`, of which two must hold at once.
JSON.stringify(schema, (key, value) => {
    if (key === 'variables') delete value.required;
    if (key === 'containerDimensions') delete value.allOf;
    return value;
});

// Returns a function that fails if a value does not match a definition.
export function validator(name) {
    const validate = (validators[name] ??= ajv.compile(schema.$defs[name]));
    return value => assert(validate(value), `${name}: ${JSON.stringify(value)}\n${ajv.errorsText(validate.errors)}`);
}

// Validates messages that went both ways. Returns how many messages and how many different ones have a schema.
export function validate(messages) {
    const requests = new Map();
    const seen = new Map();
    const check = (name, value) => {
        validator(name)(value);
        seen.set(name, (seen.get(name) ?? 0) + 1);
    };
    for (const [direction, message] of messages) {
        const { jsonrpc, id, ...rest } = message;
        assert.equal(jsonrpc, '2.0', JSON.stringify(message));
        if (rest.method !== undefined) {
            if (id !== undefined) requests.set(`${direction} ${id}`, rest.method);
            if (OF_METHOD[rest.method]) check(OF_METHOD[rest.method], rest);
            else assert(!rest.method.startsWith('ui/'), `unknown method ${rest.method}`);
        } else {
            const opposite = direction === 'to the page' ? 'from the page' : 'to the page';
            const method = requests.get(`${opposite} ${id}`);
            assert(method, `a response without a request: ${JSON.stringify(message)}`);
            assert.equal(requests.delete(`${opposite} ${id}`), true);
            const result = OF_METHOD[method]?.replace(/Request$/, 'Result');
            if (rest.result && schema.$defs[result]) check(result, rest.result);
        }
    }
    assert.deepEqual([...requests], [], 'each request has one response');
    return seen;
}
