// The checks of all Node clients for `examples/ask`, a server that sends elicitation and sampling requests.
import { checkError, rejection } from './common.mjs';

/** Answers on behalf of the user. `answer(message)` returns the answer to a question, or undefined if the question is unexpected. */
class User {
    elicitations = [];
    samplingRequests = [];

    constructor(answer) {
        this.answer = answer;
    }

    elicit(params) {
        this.elicitations.push(params);
        const answer = this.answer(params.message);
        if (!answer) throw new Error(`unexpected question: ${JSON.stringify(params.message)}`);
        return answer;
    }

    sample(params) {
        this.samplingRequests.push(params);
        return { role: 'assistant', content: { type: 'text', text: 'Do come!' }, model: 'none', stopReason: 'endTurn' };
    }
}

const accept = content => ({ action: 'accept', content });
const declined = { action: 'decline' };
const cancelled = { action: 'cancel' };
const sure = accept({ sure: true });

/**
 * Runs the checks for `examples/ask`.
 *
 * `using(user, use)` connects a client, which declares elicitation and sampling if there is a user, and closes it after `use`.
 * Elicitation exists since 2025-06-18, sampling in every revision.
 */
export async function check(t, using, revision) {
    const supportsElicitation = revision >= '2025-06-18';
    await using(undefined, async client => {
        t.equal(await client.negotiated(), revision, 'the negotiated revision');
        await checkMissingCapabilities(t, client, revision, { book_seats: 'elicitation', invitation: 'sampling' });
    });
    const user = new User();
    await using(user, async client => {
        await checkSampling(t, client, user);
        if (supportsElicitation) {
            await checkForm(t, client, user, revision);
            await checkConfirmation(t, client, user, revision);
            await checkSeats(t, client, user, revision);
            await checkConcurrentCalls(t, client, user, revision);
            await checkInvalidAnswer(t, client, user, revision);
        } else {
            await checkMissingCapabilities(t, client, revision, { book_seats: 'elicitation' });
            t.equal(user.elicitations, [], 'the user is not asked before 2025-06-18');
        }
    });
}

async function checkMissingCapabilities(t, client, revision, tools) {
    for (const [tool, capability] of Object.entries(tools)) {
        const call = client.call(tool, { play: 'Faust' });
        if (revision >= '2026-07-28') {
            checkError(t, client, await rejection(call), -32021, `${tool} without ${capability}`, capability);
        } else {
            checkToolError(t, await call, `${tool} without ${capability}`, capability);
        }
    }
}

function checkToolError(t, result, what, ...words) {
    t.equal(result.isError, true, `${what} is an error of the tool`);
    for (const word of words) t.includes(result.content[0].text, word, `the error message of ${what}`);
}

async function checkSampling(t, client, user) {
    t.equal(await callText(t, client, 'invitation', { play: 'Faust' }), 'Do come!', 'the invitation');
    t.equal(user.samplingRequests.length, 1, 'there is one sampling request');
    const [{ messages, maxTokens }] = user.samplingRequests;
    t.equal(messages.map(message => message.role), ['user'], 'the roles of the messages');
    t.equal(text(messages[0].content), 'Write one sentence that invites a friend to see Faust.', 'the text of the message');
    t.equal(maxTokens, 100, 'the maximum number of tokens');
}

/** Checks the three forms of a booking, and that cancelling the first one ends the call. */
async function checkForm(t, client, user, revision) {
    const play = newPlay();
    user.elicitations = [];
    await book(t, client, user, revision, play);
    const [party, places, pay] = user.elicitations;
    t.equal(user.elicitations.map(params => params.message), Object.keys(answers(revision, play)), 'the questions');

    const { name, email, seats } = party.requestedSchema.properties;
    t.equal(Object.keys(party.requestedSchema.properties).sort(), ['email', 'name', 'seats'], 'the fields of the first form');
    t.ok(party.requestedSchema.required.includes('name'), 'name is required', party);
    t.ok(!party.requestedSchema.required.includes('email'), 'email is optional', party);
    t.equal([name.type, name.title, name.minLength, name.maxLength], ['string', 'Name', 1, 40], 'the schema of name');
    t.equal([email.type, email.format], ['string', 'email'], 'the schema of email');
    t.equal([seats.type, seats.minimum, seats.maximum], ['integer', 1, 8], 'the schema of seats');

    const { area, ...extras } = places.requestedSchema.properties;
    t.equal(area.enum ?? area.oneOf.map(choice => choice.const), ['stalls', 'balcony'], 'the choices of area');
    t.equal(area.enumNames ?? area.oneOf.map(choice => choice.title), ['Stalls, near the stage', 'Balcony, with a view'], 'the titles of the choices of area');
    if (revision >= '2025-11-25') {
        t.equal(extras.extras.items.anyOf.map(choice => choice.const), ['wheelchair', 'programme'], 'the choices of extras');
        t.equal([extras.extras.type, extras.extras.maxItems], ['array', 2], 'the maximum number of extras');
    } else {
        t.equal(Object.keys(extras).sort(), ['extras.programme', 'extras.wheelchair'], 'one field per extra');
        t.ok(Object.values(extras).every(extra => extra.type === 'boolean'), 'each extra is a boolean', extras);
    }
    t.equal(pay.requestedSchema.properties.sure.type, 'boolean', 'the last form');

    user.elicitations = [];
    user.answer = () => cancelled;
    t.equal(await callText(t, client, 'book_seats', { play }), 'nothing was booked', 'cancelling books nothing');
    t.equal(user.elicitations.length, 1, 'no further question after cancelling');
}

async function checkConfirmation(t, client, user, revision) {
    const play = newPlay();
    const number = await book(t, client, user, revision, play);
    const question = `Cancel booking ${number}, 2 seats for Grace (${play})?`;
    const unchanged = `booking ${number} was kept`;
    const answers = [
        [declined, unchanged],
        [cancelled, unchanged],
        [accept({ sure: false }), unchanged],
        [sure, `booking ${number} is cancelled`],
    ];
    for (const [answer, expected] of answers) {
        user.elicitations = [];
        user.answer = () => answer;
        t.equal(await callText(t, client, 'cancel_booking', { number }), expected, `the answer ${JSON.stringify(answer)}`);
        t.equal(user.elicitations.map(params => params.message), [question], 'the confirmation question');
    }
    user.elicitations = [];
    t.equal(await callText(t, client, 'cancel_booking', { number }), `booking ${number} not found`, 'a booking that was cancelled');
    t.equal(user.elicitations, [], 'no question about a booking that was cancelled');
}

/** Checks that seats are released. The hall has twelve: if any were held twice or not released, they would run out. */
async function checkSeats(t, client, user, revision) {
    const play = newPlay();
    const eight = answers(revision, play, 8);
    const all = [
        [declined, 'nothing was booked'],
        [declined, 'nothing was booked'],
        [sure, /^booking \d+: 8 seats in the Balcony/],
        [sure, `not enough seats left for ${play}`],
    ];
    for (const [last, expected] of all) {
        user.answer = message => (message.endsWith('Book them?') ? last : eight[message]);
        const found = await callText(t, client, 'book_seats', { play });
        t.ok(expected instanceof RegExp ? expected.test(found) : expected === found, `booking eight seats: ${expected}`, found);
    }
}

/** Checks concurrent calls that ask the same user. */
async function checkConcurrentCalls(t, client, user, revision) {
    const parties = Array.from({ length: 4 }, (_, index) => ({ play: newPlay(), seats: index + 1, name: `Guest ${index + 1}` }));
    const all = Object.assign({}, ...parties.map(({ play, seats, name }) => answers(revision, play, seats, name)));
    user.answer = message => all[message];
    const texts = await Promise.all(parties.map(({ play }) => callText(t, client, 'book_seats', { play })));
    texts.forEach((found, index) => t.includes(found, `: ${index + 1} seats in the Balcony`, 'the seats of a concurrent booking'));
}

/** Checks an invalid answer. It ends a call that waits for it. From 2026-07-28 on, the question is asked again. */
async function checkInvalidAnswer(t, client, user, revision) {
    const play = newPlay();
    const valid = answers(revision, play);
    user.elicitations = [];
    const tooMany = accept({ name: 'Grace', seats: 99 });
    user.answer = message => (user.elicitations.length === 1 ? tooMany : valid[message.split('\n')[0]]);
    const call = client.call('book_seats', { play });
    if (revision >= '2026-07-28') {
        t.includes(text((await call).content[0]), ': 2 seats in the Balcony', 'a valid answer after an invalid one');
        t.equal(user.elicitations.length, 4, 'one question is repeated');
        const [first, second] = user.elicitations.map(question => question.message);
        t.equal(second.split('\n')[0], first, 'the first question is repeated');
        t.includes(second, '99', 'the repeated question says why');
    } else {
        checkToolError(t, await call, 'an invalid answer', 'seats', '99');
        t.equal(user.elicitations.length, 1, 'no question after an invalid answer');
    }
}

/** Books two seats and returns the number of the booking. */
async function book(t, client, user, revision, play) {
    const all = answers(revision, play);
    user.answer = message => all[message];
    const found = await callText(t, client, 'book_seats', { play });
    const number = Number(/^booking (\d+): /.exec(found)?.[1]);
    const booked = `booking ${number}: 2 seats in the Balcony, with [Programme]; the tickets go to grace@example.com`;
    t.equal(found, booked, 'the result of booking');
    return number;
}

/** Returns the three questions of a booking with their answers. */
function answers(revision, play, seats = 2, name = 'Grace') {
    const extras = revision >= '2025-11-25' ? { extras: ['programme'] } : { 'extras.programme': true, 'extras.wheelchair': false };
    return {
        [`Who would like to see ${play}?`]: accept({ name, email: 'grace@example.com', seats }),
        [`Where would you like to sit, ${name}?`]: accept({ area: 'balcony', ...extras }),
        [`${seats} seats for ${play} cost ${seats * 25} francs. Book them?`]: sure,
    };
}

/** Returns a play without bookings. */
function newPlay() {
    return `Faust ${Math.random().toString(36).slice(2, 8)}`;
}

/** Calls a tool and returns the text of its result. */
async function callText(t, client, name, args) {
    const result = await client.call(name, args);
    t.ok(!result.isError, `${name} succeeds`, result);
    return text(result.content[0]);
}

/** Returns the text of a content block, which some revisions wrap in an array. */
function text(content) {
    return [content].flat()[0].text;
}
