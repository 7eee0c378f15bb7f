// What every Node client shares: the command line, the checks, the report. Import it before any SDK: it listens for warnings.
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
 * Runs `connect` and all checks of a suite once for every revision; `auto` leaves the choice to the client, which must find
 * 2026-07-28.
 *
 * `node CLIENT.mjs [--suite ask] [--revision R]… (--http URL | [--] COMMAND ARGUMENT…)`; `connect(server, revision, user)` gets
 * `{ command, args }` or `{ url }`, and who answers the server's questions (`elicit(params)`, `sample(params)`), if somebody does;
 * it returns an adapter (see `check`).
 */
export async function main(name, version, revisions, connect) {
    const { server, suite, only } = commandLine();
    for (const revision of only.length ? only : revisions) {
        const count = await oneRevision(server, suite, revision, connect).catch(error => {
            writeToStderr(`FAILED ${name} ${version} ${revision}: ${error instanceof Deviation ? error.message : error.stack}\n`);
            process.exit(1);
        });
        process.stdout.write(`ok ${name} ${version} ${revision}: ${count} checks\n`);
    }
    process.exit(0);
}

export function packageVersion(name) {
    return JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;
}

/** Waits for the error that `promise` must end in. */
export async function caught(promise) {
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
    const only = [];
    while (words[0] === '--revision') {
        words.shift();
        only.push(words.shift());
    }
    if (words[0] === '--http') return { server: { url: words[1] }, suite, only };
    if (words[0] === '--') words.shift();
    const [command, ...args] = words;
    if (!command) throw new Error('usage: CLIENT.mjs [--suite ask] [--revision R]… (--http URL | [--] COMMAND ARGUMENT…)');
    return { server: { command, args }, suite, only };
}

async function oneRevision(server, suite, revision, connect) {
    const t = new Checks();
    const using = async (user, use) => {
        const client = await connect(server, revision, user);
        try {
            await use(client);
        } finally {
            await client.close();
        }
        t.equal(client.errors ?? [], [], 'the client reports no error outside an answer');
    };
    await SUITES[suite](t, using, revision === 'auto' ? '2026-07-28' : revision);
    t.equal(warnings, [], 'nothing warns');
    return t.count;
}

/** The checks of each server. */
const SUITES = {
    notes: (t, using, revision) => using(undefined, client => check(t, client, revision)),
    ask: async (t, using, revision) => (await import('./ask.mjs')).check(t, using, revision),
};

class Deviation extends Error {}

class Checks {
    count = 0;

    ok(condition, what, seen) {
        this.count += 1;
        if (!condition) throw new Deviation(seen === undefined ? what : `${what}\n  seen: ${JSON.stringify(seen)}`);
    }

    equal(actual, expected, what) {
        const [a, b] = [JSON.stringify(actual), JSON.stringify(expected)];
        this.ok(a === b, `${what}\n  seen:     ${a}\n  expected: ${b}`);
    }

    includes(text, word, what) {
        this.ok(String(text).includes(word), `${what}: ${JSON.stringify(word)} is missing`, text);
    }
}

/**
 * The one table of checks for `examples/notes`. An adapter has `tools()`, `call(name, args)`, `resources()`, `templates()`,
 * `read(uri)`, `prompts()`, `prompt(name, args)`, `negotiated()`, `close()` and, where the client offers it, `complete(ref, argument,
 * value)` and `ping()`. They return what the client returns and throw what it throws. `errorCodes: false`: the client hides the
 * JSON-RPC code; `resourceNotFound`: the code that it throws for -32002; `coerces`: it bends arguments to the type in the schema
 * before it sends them.
 */
async function check(t, client, revision) {
    const has = since => revision >= since;
    const tag = `interop-${Math.random().toString(36).slice(2, 8)}`;

    t.equal(await client.negotiated(), revision, 'the negotiated revision');
    if (client.ping) t.ok(await client.ping(), 'ping is answered');

    // Tools and their schemas.
    const tools = Object.fromEntries((await client.tools()).map(tool => [tool.name, tool]));
    t.equal(Object.keys(tools).sort(), ['add_note', 'count_notes', 'delete_note', 'search_notes'], 'the names of the tools');
    for (const tool of Object.values(tools)) {
        t.ok(tool.description, `${tool.name} has a description`);
        t.equal(tool.inputSchema.type, 'object', `the input of ${tool.name} is an object`);
        t.ok(tool.inputSchema.properties, `the input of ${tool.name} has properties, be they none`, tool.inputSchema);
        checkSchema(t, tool.inputSchema, `${tool.name}.inputSchema`);
        if (tool.outputSchema) checkSchema(t, tool.outputSchema, `${tool.name}.outputSchema`);
    }
    const { add_note, search_notes, delete_note, count_notes } = tools;
    t.equal([...add_note.inputSchema.required].sort(), ['body', 'title'], 'what add_note requires');
    const { title, tags } = add_note.inputSchema.properties;
    t.equal([title.type, title.minLength, title.maxLength], ['string', 1, 200], 'the schema of title');
    t.equal([tags.type, tags.items.type], ['array', 'string'], 'the schema of tags');
    t.equal(search_notes.inputSchema.required, ['query'], 'what search_notes requires');
    const { limit } = search_notes.inputSchema.properties;
    t.equal([limit.type, limit.minimum, limit.maximum, limit.default], ['integer', 1, 100, 10], 'the schema of limit');
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

    // What the client may now hold in its cache must not hide what a call changes.
    const before = await value(t, client, revision, 'count_notes', {});
    t.ok(Number.isInteger(before.notes) && Number.isInteger(before.tags), 'count_notes counts', before);
    await client.resources();
    await client.read('notes://all');

    // Good calls.
    const body = 'Grüße 👋 "quoted" \\ back\u2028slash\nsecond line\ttab \u0000 nul';
    const notes = [];
    for (const title of [`Alpha ${tag}`, `Beta ${tag}`]) {
        const note = await value(t, client, revision, 'add_note', { title, body, tags: [tag, 'interop'] });
        t.ok(Number.isInteger(note.id), 'a note has a number', note);
        t.equal([note.title, note.body, [...note.tags].sort()], [title, body, [tag, 'interop'].sort()], 'the note that came back');
        t.ok(typeof note.created === 'string' || typeof note.created === 'number', 'a note has a time', note);
        notes.push(note);
    }
    const plain = await value(t, client, revision, 'add_note', { title: `Gamma ${tag}`, body: '' });
    t.equal(plain.tags, [], 'tags are optional');
    notes.push(plain);

    const found = await value(t, client, revision, 'search_notes', { query: tag });
    t.equal(found.map(note => note.id).sort(), notes.map(note => note.id).sort(), 'search finds the notes');
    const limited = await value(t, client, revision, 'search_notes', { query: tag, limit: 1 });
    t.equal(limited.length, 1, 'limit limits');
    const tagged = await value(t, client, revision, 'search_notes', { query: 'Beta', tag });
    t.equal(tagged.map(note => note.id), [notes[1].id], 'tag filters');
    t.equal(await value(t, client, revision, 'search_notes', { query: `nothing${tag}` }), [], 'nothing found is an empty list');

    const counts = await Promise.all(Array.from({ length: client.concurrency ?? 32 }, () => value(t, client, revision, 'count_notes', {})));
    t.ok(counts.every(count => count.notes === before.notes + 3), 'concurrent calls all see the three notes', counts);

    // Bad calls.
    const illTyped = [
        ['search_notes', { query: tag, limit: 'many' }, ['limit', 'many']],
        ['search_notes', { query: tag, limit: 1.5 }, ['limit', '1.5']],
        ['add_note', { title: 7, body: 'b' }, ['title', '7']],
        ['delete_note', { id: 'first' }, ['id', 'first']],
    ];
    const bad = [
        ['search_notes', {}, ['query']],
        ['search_notes', { query: tag, limit: 0 }, ['limit', '0', '1', '100']],
        ['search_notes', { query: tag, limit: 101 }, ['limit', '101', '1', '100']],
        ['add_note', { body: 'b' }, ['title']],
        ['add_note', { title: '', body: 'b' }, ['title', '1']],
        ['add_note', { title: 'x'.repeat(201), body: 'b' }, ['title', '200']],
        ['add_note', { title: 'Alpha', body: 'b', tags: ['Not OK'] }, ['tags', 'Not OK']],
        ...(client.coerces ? [] : illTyped),
    ];
    for (const [name, args, words] of bad) {
        const what = `${name} ${JSON.stringify(args).slice(0, 60)}`;
        let text;
        if (has('2025-11-25')) {
            const result = await client.call(name, args);
            t.equal(result.isError, true, `${what} is an error`);
            text = result.content[0].text;
        } else {
            const error = await caught(client.call(name, args));
            checkError(t, client, error, -32602, what);
            text = error.message;
        }
        for (const word of words) t.includes(text, word, `the answer to ${what}`);
    }
    const still = await value(t, client, revision, 'count_notes', {});
    t.equal(still.notes, before.notes + 3, 'a bad call changes nothing');
    checkError(t, client, await caught(client.call('no_such_tool', {})), -32602, 'an unknown tool');

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
    t.equal(JSON.parse(one.text).body, body, 'the body of a note that was read');
    const [ofTag] = await client.read(`notes://tag/${tag}`);
    t.equal(ofTag.mimeType, 'text/markdown', 'reading a tag');
    t.includes(ofTag.text, `Beta ${tag}`, 'notes://tag');
    t.ok(!ofTag.text.includes(`Gamma ${tag}`), 'notes://tag has only its own', ofTag.text);
    checkError(t, client, await caught(client.read('notes://nowhere')), client.resourceNotFound ?? (has('2026-07-28') ? -32602 : -32002), 'an unknown resource');

    // Prompts.
    const prompts = Object.fromEntries((await client.prompts()).map(prompt => [prompt.name, prompt]));
    t.equal(Object.keys(prompts).sort(), ['summarise', 'weekly_review'], 'the prompts');
    t.ok(prompts.summarise.description && prompts.weekly_review.description, 'prompts have descriptions', prompts);
    t.equal(prompts.summarise.arguments.map(arg => [arg.name, arg.required]), [['tag', true], ['style', true]], 'the arguments of summarise');
    const summary = await client.prompt('summarise', { tag, style: 'brief' });
    t.ok(['user', 'assistant'].includes(summary.messages[0]?.role), 'summarise gives messages', summary);
    t.includes(JSON.stringify(summary.messages), tag, 'the messages of summarise');
    const review = await client.prompt('weekly_review', {});
    t.ok(review.messages.length > 0, 'weekly_review gives messages', review);
    checkError(t, client, await caught(client.prompt('summarise', { tag })), -32602, 'a prompt without its argument', 'style');
    checkError(t, client, await caught(client.prompt('summarise', { tag, style: 'loud' })), -32602, 'a prompt with a bad argument', 'loud');
    checkError(t, client, await caught(client.prompt('no_such_prompt', {})), -32602, 'an unknown prompt');

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

    // Tidy up.
    for (const note of notes) {
        const result = await client.call('delete_note', { id: note.id });
        t.ok(!result.isError && result.content[0].type === 'text', 'delete_note answers with text', result);
    }
    t.equal(await value(t, client, revision, 'count_notes', {}), before, 'what was added is gone');
}

/** Calls a tool that gives a value, and takes the value out of its structured content or, in older revisions, its text. */
async function value(t, client, revision, name, args) {
    const result = await client.call(name, args);
    t.ok(!result.isError, `${name} succeeds`, result);
    t.equal(result.content[0]?.type, 'text', `${name} answers with text too`);
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

/** Checks the error that a call ended in. */
export function checkError(t, client, error, code, what, ...words) {
    t.ok(error !== undefined, `${what} is an error`);
    if (client.errorCodes ?? true) t.equal(error.code, code, `the code of ${what} (${error.message})`);
    for (const word of words) t.includes(error.message, word, `the answer to ${what}`);
}

/** Compiles a schema with Ajv in strict mode, and looks for what weak clients do not understand. */
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
        t.ok(!Array.isArray(node.type), `${where} has one type a value`, node);
        Object.values(node).forEach(visit);
    };
    visit(schema);
}
