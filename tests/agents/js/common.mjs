// The checks that all JavaScript clients share. ../README.md describes the plan they read and the lines they print.

import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const TIME_LIMIT = 30_000; // milliseconds for one check

// The answers to the forms of `ask`, by a field that only this form has.
const ANSWERS = {
    name: { name: 'Ada', email: 'ada@example.com', seats: 2 },
    area: { area: 'stalls', extras: [] },
    sure: { sure: true },
};

/** Thrown by a client for what its framework does not offer. The check is left out. */
export class Unsupported extends Error {}

/**
 * One connection of a framework to one server. Subclasses use the functions that an agent of the framework runs.
 *
 * `call` returns what the model reads, and throws what ends the run of the agent.
 */
export class Client {
    /** Whether the framework lets its user answer elicitation requests. */
    static answersForms = false;
    /** Matches what the framework prints about itself, or about errors that the checks provoke. */
    static ownMessages = undefined;

    constructor(target, answer) {
        this.target = target;
        this.answer = answer;
    }

    get url() {
        return this.target.url && new URL(this.target.url);
    }

    /** The executable of a stdio server and its arguments. */
    get process() {
        const [command, ...args] = this.target.command;
        return { command, args };
    }

    async open() {}
    async close() {}

    /** Returns the schema of the parameters of each tool, as the framework sends it to a provider. */
    async tools() {
        throw new Unsupported();
    }
    async call(_name, _args) {
        throw new Unsupported();
    }
    async resources() {
        throw new Unsupported();
    }
    async read(_uri) {
        throw new Unsupported();
    }
    async prompts() {
        throw new Unsupported();
    }
    async prompt(_name, _args) {
        throw new Unsupported();
    }

    /** Calls a tool with arguments in the order of its schema. */
    async callWithPositions(_name, _values) {
        throw new Unsupported();
    }
}

/** Answers a form of `ask`, as its user would. */
export function answerForm(schema) {
    const fields = schema.properties ?? {};
    return Object.entries(ANSWERS).find(([field]) => field in fields)[1];
}

/** Returns the version of a package that is installed beside the client in the file `url`. */
export function versionOf(name, url) {
    return JSON.parse(readFileSync(`${dirname(fileURLToPath(url))}/node_modules/${name}/package.json`)).version;
}

/**
 * Runs the plan whose file is the first argument.
 *
 * `about` has the name of the framework in frameworks.json, and its version. `connect` is a subclass of `Client`.
 */
export async function main(about, connect, Checks = Behaviour) {
    const plan = JSON.parse(readFileSync(process.argv[2]));
    const print = process.stdout.write.bind(process.stdout);
    const write = line => print(`${JSON.stringify({ ...about, ...line })}\n`);
    const logged = recordOutput();
    for (const target of plan.servers) await new Checks(write, connect, logged, target).run();
    for (const shape of plan.shapes) await convert(write, connect, shape);
    print('', () => process.exit(0));
}

/** Keeps what frameworks print, because stdout is only used for lines of this program. */
function recordOutput() {
    const texts = [];
    const record = text => {
        if (String(text).trim()) texts.push(String(text).trim());
    };
    for (const stream of [process.stdout, process.stderr]) {
        stream.write = (chunk, encoding, done) => {
            record(chunk);
            (typeof encoding === 'function' ? encoding : done)?.();
            return true;
        };
    }
    process.on('unhandledRejection', error => record(`unhandled rejection: ${describe(error)}`));
    process.on('warning', warning => record(`${warning.name}: ${warning.message}`));
    return texts;
}

/** The checks of one server over one transport. */
export class Behaviour {
    constructor(write, connect, logged, target) {
        Object.assign(this, { write, connect, logged, target });
    }

    async run() {
        this.logged.length = 0;
        await this[this.target.server]();
        const warnings = this.logged.filter(text => !this.connect.ownMessages?.test(text));
        this.report('warnings', warnings.length ? 'fail' : 'ok', warnings.join('\n').slice(0, 2000));
    }

    /** Connects for the checks in `body`, and reports a failure to connect or to disconnect as `connect`. */
    async connected(body, answer) {
        const client = new this.connect(this.target, answer);
        try {
            await within(client.open());
            await body(client);
            await within(client.close());
        } catch (error) {
            this.report('connect', 'fail', describe(error));
        }
    }

    /** Reports a check, which fails with an exception, or if the text of the result lacks one of the parts. */
    async check(name, run, ...parts) {
        try {
            const text = textOf(await within(run()));
            const missing = parts.filter(part => !text.includes(part));
            const detail = missing.length ? `${JSON.stringify(missing)} not in ${text.slice(0, 600)}` : text.slice(0, 200);
            this.report(name, missing.length ? 'fail' : 'ok', detail);
        } catch (error) {
            if (!(error instanceof Unsupported)) this.report(name, 'fail', describe(error));
        }
    }

    report(check, outcome, detail = '') {
        const { server, transport } = this.target;
        this.write({ kind: 'behaviour', server, transport, check, outcome, detail });
    }

    async notes() {
        const note = { title: 'Milk', body: 'Two litres', tags: ['shopping'] };
        await this.connected(async client => {
            await this.check('list', () => client.tools(), 'add_note', 'search_notes', 'delete_note', 'count_notes');
            await this.check('call', () => client.call('add_note', note), 'Two litres');
            const positions = ['Bread', 'Two loaves'];
            await this.check('positions', () => client.callWithPositions('add_note', positions), 'title=Bread', 'body=Two loaves');
            await this.check('null', () => client.call('search_notes', { query: 'litres', tag: null, limit: null }), 'Milk');
            await this.check('omitted', () => client.call('search_notes', { query: 'litres' }), 'Milk');
            await this.check('ill-typed', () => client.call('search_notes', { query: 'x', limit: 'many' }), 'limit');
            await this.check('out-of-range', () => client.call('search_notes', { query: 'x', limit: 1000 }), 'limit', '100');
            await this.check('missing', () => client.call('add_note', { title: 'Milk' }), 'body');
            await this.check('unknown-argument', () => client.call('add_note', { title: 'x', body: 'y', colour: 'red' }), 'colour');
            await this.check('tool-error', () => client.call('delete_note', { id: 99 }), 'note 99 not found');
            await this.check('resources', () => client.resources(), 'notes://all');
            await this.check('read', () => client.read('notes://note/1'), 'Two litres');
            await this.check('prompts', () => client.prompts(), 'summarise', 'weekly_review');
            await this.check('prompt', () => client.prompt('summarise', { tag: 'shopping', style: 'brief' }), 'two sentences');
        });
        // A connection of its own: this ends the run in many frameworks.
        await this.connected(client => this.check('unknown-tool', () => client.call('no_such_tool', {}), 'no_such_tool'));
    }

    async everything() {
        await this.connected(async client => {
            await this.check('list', () => client.tools(), 'test_simple_text', 'json_schema_2020_12_tool');
            await this.check('call', () => client.call('test_simple_text', {}), 'simple text response');
            await this.check('image', () => client.call('test_image_content', {}));
            await this.check('contents', () => client.call('test_multiple_content_types', {}), 'Multiple content types');
            await this.check('tool-error', () => client.call('test_error_handling', {}), 'intentionally returns an error');
            await this.check('missing', () => client.call('json_schema_2020_12_tool', { name: 'Ada' }), 'email');
            await this.check('resources', () => client.resources(), 'test://static-text');
            await this.check('read', () => client.read('test://static-text'), 'static text resource');
            await this.check('prompts', () => client.prompts(), 'test_simple_prompt');
            await this.check('prompt', () => client.prompt('test_simple_prompt', {}), 'simple prompt');
        });
        const prompt = { prompt: 'Hello' };
        await this.connected(client => this.check('missing-capability', () => client.call('test_sampling', prompt), 'sampling'));
    }

    async ask() {
        const play = { play: 'Hamlet' };
        await this.connected(async client => {
            await this.check('list', () => client.tools(), 'book_seats');
            await this.check('call', () => client.call('cancel_booking', { number: 7 }), 'booking 7 not found');
            await this.check('ask-unsupported', () => client.call('book_seats', play), 'elicitation');
        });
        if (!this.connect.answersForms) return;
        await this.connected(client => this.check('ask', () => client.call('book_seats', play), '2 seats in the Stalls'), answerForm);
    }
}

/** Prints what becomes of one form of a shape. */
async function convert(write, connect, { shape, form, command }) {
    const line = { kind: 'shape', shape, form };
    const client = new connect({ server: 'shapes', transport: 'stdio', command });
    try {
        await within(client.open());
        const tools = Object.entries(await within(client.tools()));
        const probe = tools.find(([name]) => name.endsWith('probe')); // the framework may prefix the name
        write(probe ? { ...line, converted: probe[1] } : { ...line, error: 'the tool is left out of the list' });
    } catch (error) {
        write({ ...line, error: describe(error) });
    } finally {
        await within(client.close()).catch(() => {});
    }
}

async function within(promise) {
    const timer = new AbortController();
    try {
        const timeout = sleep(TIME_LIMIT, undefined, { signal: timer.signal }).then(() => {
            throw new Error(`not done within ${TIME_LIMIT / 1000} s`);
        });
        timeout.catch(() => {}); // aborted
        return await Promise.race([promise, timeout]);
    } finally {
        timer.abort();
    }
}

/** Returns a result as text, whatever its type. */
function textOf(value) {
    return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
}

function describe(error) {
    const causes = [];
    for (let cause = error; cause && causes.length < 3; cause = cause.cause) {
        causes.push(`${cause.name ?? 'Error'}: ${cause.message ?? textOf(cause)}`);
    }
    return causes.join('; caused by ').slice(0, 800);
}
