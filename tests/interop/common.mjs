// The command line, checks and report that all Node clients share. Import this before any SDK, so that it records all warnings.
import { readFileSync } from 'node:fs';
import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

const warnings = [];
for (const method of ['warn', 'error']) {
    console[method] = (...words) => warnings.push(words.map(String).join(' '));
}
process.on('warning', warning => warnings.push(String(warning)));
const writeToStderr = process.stderr.write.bind(process.stderr);

/**
 * Runs all checks of a suite once per revision. With `auto`, the client chooses the revision, which must be 2026-07-28.
 *
 *     node CLIENT.mjs [--suite SUITE] [--without FEATURE]… [--revision R]… (--http URL | [--] COMMAND ARGUMENT…)
 *
 * `connect(server, revision, user)` connects to `{ command, args }` or `{ url }` and returns an adapter (see `check`). `user`
 * answers the server's requests with `elicit(params)` and `sample(params)`. Without a `user`, the client declares neither capability.
 * If the user has `roots`, the client declares them too, and adds the notifications that it receives to `user.notifications`.
 */
export async function main(name, version, revisions, connect) {
    const { server, suite, without, only } = commandLine();
    for (const revision of only.length ? only : revisions) {
        const count = await runRevision(server, suite, without, revision, connect).catch(error => {
            writeToStderr(`FAILED ${name} ${version} ${revision}: ${error instanceof CheckFailure ? error.message : error.stack}\n`);
            process.exit(1);
        });
        process.stdout.write(`ok ${name} ${version} ${revision}: ${count} checks\n`);
    }
    process.exit(0);
}

export function packageVersion(name) {
    return JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;
}

/** Returns the error with which a promise is rejected, or undefined. */
export async function rejection(promise) {
    try {
        await promise;
    } catch (error) {
        return error;
    }
    return undefined;
}

function commandLine() {
    const words = process.argv.slice(2);
    let suite = 'notes';
    if (words[0] === '--suite') [, suite] = words.splice(0, 2);
    const repeated = option => {
        const values = [];
        while (words[0] === option) values.push(words.splice(0, 2)[1]);
        return values;
    };
    const without = new Set(repeated('--without'));
    const only = repeated('--revision');
    if (words[0] === '--http') return { server: { url: words[1] }, suite, without, only };
    if (words[0] === '--') words.shift();
    const [command, ...args] = words;
    if (!command) throw new Error('usage: CLIENT.mjs [--suite SUITE] [--without FEATURE]… [--revision R]… (--http URL | [--] COMMAND ARGUMENT…)');
    return { server: { command, args }, suite, without, only };
}

async function runRevision(server, suite, without, revision, connect) {
    const t = new Checks();
    const using = async (user, use) => {
        const client = await connect(server, revision, user);
        try {
            await use(client);
            // Closing aborts what the client is doing, such as opening a stream, and the client may report that.
            t.equal(client.errors ?? [], [], 'the client reports no errors outside responses');
        } finally {
            await client.close();
        }
    };
    await SUITES[suite](t, using, revision === 'auto' ? '2026-07-28' : revision, without);
    t.equal(warnings, [], 'there are no warnings');
    return t.count;
}

/** The checks of each server. */
const SUITES = {
    notes: (t, using, revision) => using(undefined, client => check(t, client, revision)),
    ask: async (t, using, revision) => (await import('./ask.mjs')).check(t, using, revision),
    everything: async (t, using, revision, without) => (await import('./everything.mjs')).check(t, using, revision, without),
};

class CheckFailure extends Error {}

class Checks {
    count = 0;

    ok(condition, what, found) {
        this.count += 1;
        if (!condition) throw new CheckFailure(found === undefined ? what : `${what}\n  found: ${JSON.stringify(found)}`);
    }

    equal(actual, expected, what) {
        const [a, b] = [JSON.stringify(actual), JSON.stringify(expected)];
        this.ok(a === b, `${what}\n  found:    ${a}\n  expected: ${b}`);
    }

    includes(text, word, what) {
        this.ok(String(text).includes(word), `${what}: expected ${JSON.stringify(word)}`, text);
    }
}

/**
 * Runs the checks for `examples/notes`.
 *
 * The methods of an adapter return the client's results and throw its errors: `tools()`, `call(name, args)`, `resources()`,
 * `templates()`, `read(uri)`, `prompts()`, `prompt(name, args)`, `negotiated()`, `close()` and, if the client supports them,
 * `complete(ref, argument, value)` and `ping()`. Optional properties describe the client:
 *
 * - `errorCodes: false`: errors have no JSON-RPC code.
 * - `resourceNotFound`: the code that replaces -32002.
 * - `coerces`: arguments are converted to the types in the schema before they are sent.
 * - `concurrency`: the number of concurrent calls to make.
 */
async function check(t, client, revision) {
    const has = since => revision >= since;
    const tag = `interop-${Math.random().toString(36).slice(2, 8)}`;

    t.equal(await client.negotiated(), revision, 'the negotiated revision');
    if (client.ping) t.ok(await client.ping(), 'ping succeeds');

    // Tools and their schemas.
    const tools = Object.fromEntries((await client.tools()).map(tool => [tool.name, tool]));
    t.equal(Object.keys(tools).sort(), ['add_note', 'count_notes', 'delete_note', 'search_notes', 'show_board'], 'the names of the tools');
    for (const tool of Object.values(tools)) {
        t.ok(tool.description, `${tool.name} has a description`);
        t.equal(tool.inputSchema.type, 'object', `the input of ${tool.name} is an object`);
        t.ok(tool.inputSchema.properties, `the input of ${tool.name} declares properties, even if empty`, tool.inputSchema);
        checkSchema(t, tool.inputSchema, `${tool.name}.inputSchema`);
        if (tool.outputSchema) checkSchema(t, tool.outputSchema, `${tool.name}.outputSchema`);
    }
    const { add_note, search_notes, delete_note, count_notes } = tools;
    t.equal([...add_note.inputSchema.required].sort(), ['body', 'title'], 'the required arguments of add_note');
    // An optional argument is listed as `anyOf` with `null`.
    const present = (schema) => schema.anyOf.find((form) => form.type !== 'null');
    const { title, tags } = add_note.inputSchema.properties;
    t.equal([title.type, title.minLength, title.maxLength], ['string', 1, 200], 'the schema of title');
    t.equal([present(tags).type, present(tags).items.type], ['array', 'string'], 'the schema of tags');
    t.equal(search_notes.inputSchema.required, ['query'], 'the required arguments of search_notes');
    const { limit } = search_notes.inputSchema.properties;
    const { type, minimum, maximum } = present(limit);
    t.equal([type, minimum, maximum, limit.default], ['integer', 1, 100, 10], 'the schema of limit');
    t.equal(delete_note.inputSchema.properties.id.type, 'integer', 'the schema of id');
    if (has('2025-03-26')) {
        t.equal(search_notes.annotations?.readOnlyHint, true, 'search_notes is read-only');
        t.equal(delete_note.annotations?.destructiveHint, true, 'delete_note is destructive');
    } else {
        t.ok(Object.values(tools).every(tool => !tool.annotations), 'no annotations before 2025-03-26', tools);
    }
    if (has('2025-06-18')) {
        t.equal(add_note.outputSchema?.type, 'object', 'the output of add_note');
        t.equal(count_notes.outputSchema?.type, 'object', 'the output of count_notes');
        t.equal(search_notes.outputSchema?.type, has('2026-07-28') ? 'array' : 'object', 'the output of search_notes');
    } else {
        t.ok(Object.values(tools).every(tool => !tool.outputSchema), 'no output schema before 2025-06-18', tools);
    }

    // Fill the client's cache, which must not hide later changes.
    const before = await value(t, client, revision, 'count_notes', {});
    t.ok(Number.isInteger(before.notes) && Number.isInteger(before.tags), 'count_notes counts', before);
    await client.resources();
    await client.read('notes://all');

    // Valid calls.
    const body = 'Grüße 👋 "quoted" \\ back\u2028slash\nsecond line\ttab \u0000 nul';
    const notes = [];
    for (const title of [`Alpha ${tag}`, `Beta ${tag}`]) {
        const note = await value(t, client, revision, 'add_note', { title, body, tags: [tag, 'interop'] });
        t.ok(Number.isInteger(note.id), 'a note has an id', note);
        t.equal([note.title, note.body, [...note.tags].sort()], [title, body, [tag, 'interop'].sort()], 'the returned note');
        t.ok(typeof note.created === 'string' || typeof note.created === 'number', 'a note has a time', note);
        notes.push(note);
    }
    const plain = await value(t, client, revision, 'add_note', { title: `Gamma ${tag}`, body: '' });
    t.equal(plain.tags, [], 'tags are optional');
    notes.push(plain);

    const found = await value(t, client, revision, 'search_notes', { query: tag });
    t.equal(found.map(note => note.id).sort(), notes.map(note => note.id).sort(), 'search finds the notes');
    const limited = await value(t, client, revision, 'search_notes', { query: tag, limit: 1 });
    t.equal(limited.length, 1, '`limit` is applied');
    const tagged = await value(t, client, revision, 'search_notes', { query: 'Beta', tag });
    t.equal(tagged.map(note => note.id), [notes[1].id], '`tag` is applied');
    t.equal(await value(t, client, revision, 'search_notes', { query: `nothing${tag}` }), [], 'a search without matches returns an empty list');

    const counts = await Promise.all(Array.from({ length: client.concurrency ?? 32 }, () => value(t, client, revision, 'count_notes', {})));
    t.ok(counts.every(count => count.notes === before.notes + 3), 'all concurrent calls see the three notes', counts);

    // Invalid calls.
    const wrongTypes = [
        ['search_notes', { query: tag, limit: 'many' }, ['limit', 'many']],
        ['search_notes', { query: tag, limit: 1.5 }, ['limit', '1.5']],
        ['add_note', { title: 7, body: 'b' }, ['title', '7']],
        ['delete_note', { id: 'first' }, ['id', 'first']],
    ];
    const invalid = [
        ['search_notes', {}, ['query']],
        ['search_notes', { query: tag, limit: 0 }, ['limit', '0', '1', '100']],
        ['search_notes', { query: tag, limit: 101 }, ['limit', '101', '1', '100']],
        ['add_note', { body: 'b' }, ['title']],
        ['add_note', { title: '', body: 'b' }, ['title', '1']],
        ['add_note', { title: 'x'.repeat(201), body: 'b' }, ['title', '200']],
        ['add_note', { title: 'Alpha', body: 'b', tags: ['Not OK'] }, ['tags', 'Not OK']],
        ...(client.coerces ? [] : wrongTypes),
    ];
    for (const [name, args, words] of invalid) {
        const what = `${name} ${JSON.stringify(args).slice(0, 60)}`;
        const result = await client.call(name, args);
        t.equal(result.isError, true, `${what} is an error`);
        for (const word of words) t.includes(result.content[0].text, word, `the error message of ${what}`);
    }
    const after = await value(t, client, revision, 'count_notes', {});
    t.equal(after.notes, before.notes + 3, 'an invalid call changes nothing');
    checkError(t, client, await rejection(client.call('no_such_tool', {})), -32602, 'an unknown tool');

    // Resources.
    const resources = Object.fromEntries((await client.resources()).map(resource => [resource.uri, resource]));
    t.equal(resources['notes://all']?.mimeType, 'text/markdown', 'notes://all is listed');
    const uri = `notes://note/${notes[0].id}`;
    t.equal(resources[uri]?.mimeType, 'application/json', 'a new note is listed');
    t.ok(Object.values(resources).every(resource => resource.name), 'resources have names', resources);
    const templates = Object.fromEntries((await client.templates()).map(template => [template.uriTemplate, template]));
    t.equal(Object.keys(templates).sort(), ['notes://note/{id}', 'notes://tag/{tag}'], 'the templates');
    t.equal(templates['notes://tag/{tag}'].mimeType, 'text/markdown', 'the type of a template');

    const [all] = await client.read('notes://all');
    t.equal([all.uri, all.mimeType], ['notes://all', 'text/markdown'], 'reading notes://all');
    t.includes(all.text, `Alpha ${tag}`, 'notes://all');
    const [one] = await client.read(uri);
    t.equal([one.uri, one.mimeType], [uri, 'application/json'], 'reading a note');
    t.equal(JSON.parse(one.text).body, body, 'the body of the note');
    const [ofTag] = await client.read(`notes://tag/${tag}`);
    t.equal(ofTag.mimeType, 'text/markdown', 'reading a tag');
    t.includes(ofTag.text, `Beta ${tag}`, 'notes://tag');
    t.ok(!ofTag.text.includes(`Gamma ${tag}`), 'notes://tag contains only matching notes', ofTag.text);
    checkError(t, client, await rejection(client.read('notes://nowhere')), client.resourceNotFound ?? (has('2026-07-28') ? -32602 : -32002), 'an unknown resource');

    // Prompts.
    const prompts = Object.fromEntries((await client.prompts()).map(prompt => [prompt.name, prompt]));
    t.equal(Object.keys(prompts).sort(), ['summarise', 'weekly_review'], 'the prompts');
    t.ok(prompts.summarise.description && prompts.weekly_review.description, 'prompts have descriptions', prompts);
    t.equal(prompts.summarise.arguments.map(arg => [arg.name, arg.required]), [['tag', true], ['style', true]], 'the arguments of summarise');
    const summary = await client.prompt('summarise', { tag, style: 'brief' });
    t.ok(['user', 'assistant'].includes(summary.messages[0]?.role), 'summarise returns messages', summary);
    t.includes(JSON.stringify(summary.messages), tag, 'the messages of summarise');
    const review = await client.prompt('weekly_review', {});
    t.ok(review.messages.length > 0, 'weekly_review returns messages', review);
    checkError(t, client, await rejection(client.prompt('summarise', { tag })), -32602, 'a prompt without a required argument', 'style');
    checkError(t, client, await rejection(client.prompt('summarise', { tag, style: 'loud' })), -32602, 'a prompt with an invalid argument', 'loud');
    checkError(t, client, await rejection(client.prompt('no_such_prompt', {})), -32602, 'an unknown prompt');

    // Completion.
    if (client.complete) {
        const prompt = { type: 'ref/prompt', name: 'summarise' };
        const template = path => ({ type: 'ref/resource', uri: `notes://${path}` });
        t.equal(await client.complete(prompt, 'tag', tag.slice(0, -1)), [tag], 'completing the tag of a prompt');
        t.equal((await client.complete(prompt, 'style', 'b')).sort(), ['brief', 'bullets'], 'completing the style of a prompt');
        t.equal(await client.complete(template('tag/{tag}'), 'tag', tag), [tag], 'completing the tag of a template');
        const ids = await client.complete(template('note/{id}'), 'id', String(notes[0].id));
        t.ok(ids.includes(String(notes[0].id)), 'completing the id of a template', ids);
    }

    // Clean up.
    for (const note of notes) {
        const result = await client.call('delete_note', { id: note.id });
        t.ok(!result.isError && result.content[0].type === 'text', 'delete_note returns text', result);
    }
    t.equal(await value(t, client, revision, 'count_notes', {}), before, 'all added notes are deleted');
}

/** Calls a tool and returns its value: the structured content or, in older revisions, the text as JSON. */
async function value(t, client, revision, name, args) {
    const result = await client.call(name, args);
    t.ok(!result.isError, `${name} succeeds`, result);
    t.equal(result.content[0]?.type, 'text', `${name} returns text too`);
    const text = unwrap(JSON.parse(result.content[0].text));
    if (revision < '2025-06-18') {
        t.ok(result.structuredContent === undefined, 'no structured content before 2025-06-18', result);
        return text;
    }
    const structured = result.structuredContent;
    if (name === 'search_notes') {
        t.equal(Array.isArray(structured), revision >= '2026-07-28', `the structured content of ${name} is an array from 2026-07-28 on`);
    }
    t.equal(unwrap(structured), text, `text and structured content of ${name}`);
    return text;
}

function unwrap(result) {
    return Array.isArray(result?.result) ? result.result : result;
}

/** Checks that a call failed with a code and with certain words in the message. */
export function checkError(t, client, error, code, what, ...words) {
    t.ok(error !== undefined, `${what} is an error`);
    if (client.errorCodes ?? true) t.equal(error.code, code, `the code of ${what} (${error.message})`);
    for (const word of words) t.includes(error.message, word, `the error message of ${what}`);
}

/** Compiles a schema with Ajv in strict mode, and checks that it avoids keywords that some clients do not support. */
function checkSchema(t, schema, where) {
    const draft07 = String(schema.$schema ?? '').includes('draft-07');
    const ajv = new (draft07 ? Ajv : Ajv2020)({ strict: true, allErrors: true });
    addFormats(ajv);
    let error;
    try {
        ajv.compile(schema);
    } catch (thrown) {
        error = thrown.message;
    }
    t.ok(error === undefined, `${where} compiles: ${error}`, schema);
    const visit = node => {
        if (node === null || typeof node !== 'object') return;
        t.ok(!('$ref' in node), `${where} has no $ref`, node);
        t.ok(!Array.isArray(node.type), `${where} has a single type per value`, node);
        Object.values(node).forEach(visit);
    };
    visit(schema);
}
