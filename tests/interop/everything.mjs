// The checks of all Node clients for `examples/everything`: what happens besides requests and their responses.
import { readFileSync } from 'node:fs';
import { rejection } from './common.mjs';

const WATCHED = 'test://watched-resource';
const DEADLINE = 10_000; // milliseconds
const media = name => readFileSync(new URL(`../../examples/everything/media/${name}`, import.meta.url)).toString('base64');

/** The state of a client: its roots, and the notifications that it received outside of progress handlers. */
class User {
    roots = [{ uri: 'file:///interop/one', name: 'One' }];
    notifications = [];

    /** Returns the values that `select` finds in notifications of a method. */
    received(method, select) {
        return this.notifications.filter(notification => notification.method === method).map(({ params }) => select(params));
    }

    elicit(params) {
        throw new Error(`unexpected question: ${JSON.stringify(params.message)}`);
    }

    sample() {
        throw new Error('unexpected request for sampling');
    }
}

/**
 * The checks of each feature, and the revisions that have it. Those of `process-memory` need all requests to reach the same process,
 * because a server keeps in its memory which functions are enabled.
 */
const FEATURES = {
    binary: ['2024-11-05', '2026-07-28', checkBinary],
    progress: ['2024-11-05', '2026-07-28', checkProgress],
    logging: ['2024-11-05', '2026-07-28', checkLogging],
    'immediate-log-level': ['2024-11-05', '2026-07-28', checkImmediateLevel],
    subscriptions: ['2024-11-05', '2026-07-28', checkSubscriptions],
    'process-memory': ['2024-11-05', '2026-07-28', checkEnabledFunctions],
    cancellation: ['2024-11-05', '2026-07-28', checkCancellation],
    roots: ['2024-11-05', '2026-07-28', checkRoots],
    'root-changes': ['2024-11-05', '2025-11-25', checkRootChanges],
    tasks: ['2025-11-25', '2025-11-25', checkTasks],
    'task-extension': ['2026-07-28', '2026-07-28', checkTasks],
};

/**
 * Runs the checks for `examples/everything`, except for those of the features in `without`.
 *
 * In addition to the methods for `examples/notes`, adapters have `callWithProgress(name, args)`, which returns the result and the
 * updates; `setLevel(level)`; `subscribe(uri)` and `unsubscribe(uri)`; `watchLists()`, if the client has to request these
 * notifications; `startCall(name, args, started)`, which calls `started` on progress and returns a function that cancels the call;
 * `rootsChanged()`; and `tasks` with `start(name, args)`, `wait(id)`, `status(id)`, `list()` and `cancel(id)`.
 */
export async function check(t, using, revision, without) {
    const user = new User();
    await using(user, async client => {
        t.equal(await client.negotiated(), revision, 'the negotiated revision');
        for (const [feature, [first, last, run]] of Object.entries(FEATURES)) {
            if (first <= revision && revision <= last && !without.has(feature)) await run(t, client, user, revision);
        }
    });
}

async function checkBinary(t, client, _user, revision) {
    const [png, wav] = [media('pixel.png'), media('silence.wav')];
    const [image] = (await client.call('test_image_content', {})).content;
    t.equal([image.type, image.mimeType, image.data], ['image', 'image/png', png], 'an image');
    const [audio] = (await client.call('test_audio_content', {})).content;
    if (revision >= '2025-03-26') {
        t.equal([audio.type, audio.mimeType, audio.data], ['audio', 'audio/wav', wav], 'audio');
    } else {
        t.equal([audio.type, audio.resource?.blob], ['resource', wav], 'audio is an embedded resource before 2025-03-26');
    }
    const [blob] = await client.read('test://static-binary');
    t.equal([blob.mimeType, blob.blob, blob.text], ['image/png', png, undefined], 'a resource of bytes');
    const [content] = [(await client.prompt('test_prompt_with_image', {})).messages[0].content].flat();
    t.equal([content.type, content.data], ['image', png], 'an image in a prompt');
}

async function checkProgress(t, client, _user, revision) {
    const expected = [0, 50, 100].map(done => {
        const update = [done, 100];
        return revision >= '2025-03-26' ? [...update, `Completed step ${done} of 100`] : update;
    });
    // The progress tokens of two concurrent calls differ, or one would receive the updates of the other.
    const calls = [1, 2].map(() => client.callWithProgress('test_tool_with_progress', {}));
    for (const { result, updates } of await Promise.all(calls)) {
        t.equal(result.content[0].text, 'The work is done.', 'the result of a call with progress');
        const found = updates.map(({ progress, total, message }) => [progress, total, message].filter(part => part !== undefined));
        t.equal(found, expected, 'the progress of a call');
    }
}

/** Checks which messages calls send. A process that was not asked to set the level may use it only after `deadline` milliseconds. */
async function checkLogging(t, client, user, _revision, deadline = DEADLINE) {
    const messages = () => user.received('notifications/message', ({ level, data }) => `${level}: ${data}`);
    const logged = async () => {
        user.notifications = [];
        t.ok(!(await client.call('test_log_levels', {})).isError, 'test_log_levels succeeds');
        await until(() => messages().at(-1) === 'error: error message');
        return messages();
    };
    for (const [level, levels] of [['warning', ['warning', 'error']], ['debug', ['debug', 'info', 'warning', 'error']]]) {
        const expected = levels.map(level => `${level}: ${level} message`);
        await client.setLevel(level);
        const end = Date.now() + deadline;
        let found = await logged();
        while (String(found) !== String(expected) && Date.now() < end) found = await logged();
        t.equal(found, expected, `messages at the level ${level}`);
    }
    await client.setLevel('emergency');
}

async function checkImmediateLevel(t, client, user, revision) {
    await checkLogging(t, client, user, revision, 0);
}

async function checkSubscriptions(t, client, user) {
    const updates = () => user.received('notifications/resources/updated', ({ uri }) => uri);
    const trigger = async () => (await client.call('test_trigger_resource_change', {})).content[0].text;
    user.notifications = [];
    await client.subscribe(WATCHED);
    for (const count of [1, 2]) {
        const [number] = /\d+/.exec(await trigger());
        await until(() => updates().length >= count);
        t.equal(updates(), Array(count).fill(WATCHED), 'the updates of a subscribed resource');
        const [{ text }] = await client.read(WATCHED);
        t.equal(text, `The resource was updated ${number} times.`, 'the updated resource');
    }
    await client.unsubscribe(WATCHED);
    await client.read(WATCHED); // some clients end the subscription in the background
    await trigger();
    // Notifications arrive in order: an update would precede the change of the list.
    await checkListChanges(t, client, user);
    t.equal(updates(), [WATCHED, WATCHED], 'no updates after the end of the subscription');
}

async function checkListChanges(t, client, user, listed = () => undefined) {
    const lists = { tools: 'test_trigger_tool_change', prompts: 'test_trigger_prompt_change', resources: 'test_trigger_resource_list_change' };
    const stop = await client.watchLists?.();
    for (const [list, trigger] of Object.entries(lists)) {
        const method = `notifications/${list}/list_changed`;
        const before = user.received(method, () => 1).length;
        for (const count of [1, 2]) {
            t.ok(!(await client.call(trigger, {})).isError, `${trigger} succeeds`);
            await until(() => user.received(method, () => 1).length >= before + count);
            t.equal(user.received(method, () => 1).length, before + count, `the number of ${method}`);
            await listed(list, count);
        }
    }
    await stop?.();
}

/** Checks the lists while functions are enabled and disabled. */
async function checkEnabledFunctions(t, client, user) {
    const names = {
        tools: async () => (await client.tools()).map(({ name }) => name),
        prompts: async () => (await client.prompts()).map(({ name }) => name),
        resources: async () => (await client.resources()).map(({ uri }) => uri),
    };
    await checkListChanges(t, client, user, async (list, count) => {
        const optional = ['optional_tool', 'optional_prompt', 'test://optional-resource'];
        const found = (await names[list]()).some(name => optional.includes(name));
        t.equal(found, count === 1, `the optional entry in ${list} after ${count} changes`);
    });
}

async function checkCancellation(t, client) {
    const running = async () => (await client.call('test_running_calls', {})).content[0].text;
    t.equal(await running(), '0', 'no call is running');
    let started = false;
    const cancel = client.startCall('test_cancellation', {}, () => (started = true));
    await until(() => started);
    t.ok(started, 'a call starts');
    t.equal(await running(), '1', 'the call is running');
    t.ok((await rejection(cancel())) !== undefined, 'the cancelled call fails');
    const deadline = Date.now() + DEADLINE;
    while ((await running()) !== '0' && Date.now() < deadline);
    t.equal(await running(), '0', 'the cancelled call has stopped');
}

async function checkRoots(t, client) {
    t.equal(await listedRoots(client), '1 root: One', 'the roots of the client');
}

async function checkRootChanges(t, client, user) {
    const [one] = user.roots;
    const two = { uri: 'file:///interop/two', name: 'Two' };
    for (const [roots, expected] of [[[one, two], '2 roots: One, Two'], [[], '0 roots: '], [[one], '1 root: One']]) {
        user.roots = roots;
        await client.rootsChanged();
        // Over HTTP, the next call may overtake the notification, and the server keeps the roots until then.
        const deadline = Date.now() + DEADLINE;
        while ((await listedRoots(client)) !== expected && Date.now() < deadline);
        t.equal(await listedRoots(client), expected, 'the roots after a change');
    }
}

async function listedRoots(client) {
    return (await client.call('test_input_required_result_list_roots', {})).content[0].text;
}

async function checkTasks(t, client) {
    const { tasks } = client;
    const done = await tasks.start('slow_compute', { seconds: 0.1, label: 'A task' });
    t.equal((await tasks.wait(done)).content[0].text, 'A task took 0.1 s', 'the result of a task');
    t.equal(await tasks.status(done), 'completed', 'the status of a completed task');
    const running = await tasks.start('slow_compute', { seconds: 60 });
    t.equal(await tasks.status(running), 'working', 'the status of a running task');
    if (tasks.list) {
        const listed = await tasks.list();
        t.ok(listed.includes(done) && listed.includes(running), 'the tasks are listed', listed);
    }
    await tasks.cancel(running);
    t.equal(await tasks.status(running), 'cancelled', 'the status of a cancelled task');
}

/** Waits until a condition is true, but no longer than the deadline: the check that follows describes what is missing. */
async function until(condition) {
    const deadline = Date.now() + DEADLINE;
    while (!condition() && Date.now() < deadline) await new Promise(resolve => setTimeout(resolve, 2));
}
