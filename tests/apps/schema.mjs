// Validates the recorded responses of pages and their tools, in every revision, against the schemas of the npm package.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { RESOURCE_MIME_TYPE, RESOURCE_URI_META_KEY } from '@modelcontextprotocol/ext-apps/server';
import { run, validator } from './common.mjs';

const golden = new URL('../golden/pages/', import.meta.url);

// Returns how many values of `_meta.ui` are valid.
function check(messages) {
    const results = messages.map(message => message.result);
    const tools = results.flatMap(result => result.tools ?? []);
    const resources = results.flatMap(result => [...(result.resources ?? []), ...(result.contents ?? [])]);
    const valid = (definition, values) => {
        const present = values.map(({ _meta }) => _meta?.ui).filter(ui => ui !== undefined);
        present.forEach(ui => validator(definition)(ui));
        return present.length;
    };
    for (const { _meta: { ui, ...rest } = {} } of tools) assert.equal(rest[RESOURCE_URI_META_KEY], ui?.resourceUri);
    for (const { mimeType } of resources) assert.equal(mimeType, RESOURCE_MIME_TYPE);
    return valid('McpUiToolMeta', tools) + valid('McpUiResourceMeta', resources);
}

await run(Object.fromEntries(readdirSync(golden).map(revision => [`${revision} matches the schemas of pages`, () => {
    const read = name => JSON.parse(readFileSync(new URL(`${revision}/${name}.json`, golden)));
    // Lists and contents have `_meta` since 2025-06-18.
    const expected = revision < '2025-06-18' ? [0, 0] : [7, 5];
    assert.deepEqual([check(read('with_extension')), check(read('without_extension'))], expected);
}])));
