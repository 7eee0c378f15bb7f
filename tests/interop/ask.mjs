// What every Node client checks against a server that asks its user: `examples/ask`.
import { caught, checkError } from './common.mjs';

/** Who answers for the user: `answer` gets a message and returns the answer, or undefined if nobody expects the question. */
class User {
    asked = [];
    prompts = [];

    constructor(answer) {
        this.answer = answer;
    }

    elicit(params) {
        this.asked.push(params);
        const answer = this.answer(params.message);
        if (!answer) throw new Error(`nobody expected ${JSON.stringify(params.message)}`);
        return answer;
    }

    sample(params) {
        this.prompts.push(params);
        return { role: 'assistant', content: { type: 'text', text: 'Do come!' }, model: 'none', stopReason: 'endTurn' };
    }
}

const accept = content => ({ action: 'accept', content });
const declined = { action: 'decline' };
const cancelled = { action: 'cancel' };
const sure = accept({ sure: true });

/**
 * `using(user, use)` connects a client, which declares elicitation and sampling if there is a user, and closes it after `use`.
 * Users can be asked from 2025-06-18 on, their models in every revision.
 */
export async function check(t, using, revision) {
    const canBeAsked = revision >= '2025-06-18';
    await using(undefined, async client => {
        t.equal(await client.negotiated(), revision, 'the negotiated revision');
        await checkRefusals(t, client, revision, { book_seats: 'elicitation', invitation: 'sampling' });
    });
    const user = new User();
    await using(user, async client => {
        await checkSampling(t, client, user);
        if (canBeAsked) {
            await checkForm(t, client, user, revision);
            await checkConfirmation(t, client, user, revision);
            await checkSeats(t, client, user, revision);
            await checkSeveral(t, client, user, revision);
            await checkBadAnswer(t, client, user, revision);
        } else {
            await checkRefusals(t, client, revision, { book_seats: 'elicitation' });
            t.equal(user.asked, [], 'nobody is asked before 2025-06-18');
        }
    });
}

async function checkRefusals(t, client, revision, tools) {
    const code = revision >= '2026-07-28' ? -32021 : -32600;
    for (const [tool, capability] of Object.entries(tools)) {
        const error = await caught(client.call(tool, { play: 'Faust' }));
        checkError(t, client, error, code, `${tool} without ${capability}`, capability);
    }
}

async function checkSampling(t, client, user) {
    t.equal(await said(t, client, 'invitation', { play: 'Faust' }), 'Do come!', 'the invitation');
    t.equal(user.prompts.length, 1, 'the model is asked once');
    const [{ messages, maxTokens }] = user.prompts;
    t.equal(messages.map(message => message.role), ['user'], 'who asks the model');
    t.equal(text(messages[0].content), 'Write one sentence that invites a friend to see Faust.', 'what the model is asked');
    t.equal(maxTokens, 100, 'how much the model may write');
}

/** Three questions in order, each with its form; and the first one cancelled. */
async function checkForm(t, client, user, revision) {
    const play = newPlay();
    user.asked = [];
    await book(t, client, user, revision, play);
    const [party, places, pay] = user.asked;
    t.equal(user.asked.map(params => params.message), Object.keys(answers(revision, play)), 'the questions');

    const { name, email, seats } = party.requestedSchema.properties;
    t.equal(Object.keys(party.requestedSchema.properties).sort(), ['email', 'name', 'seats'], 'the first form');
    t.ok(party.requestedSchema.required.includes('name'), 'a name is required', party);
    t.ok(!party.requestedSchema.required.includes('email'), 'an address is not required', party);
    t.equal([name.type, name.title, name.minLength, name.maxLength], ['string', 'Name', 1, 40], 'the question for a name');
    t.equal([email.type, email.format], ['string', 'email'], 'the question for an address');
    t.equal([seats.type, seats.minimum, seats.maximum], ['integer', 1, 8], 'the question for a number');

    const { area, ...extras } = places.requestedSchema.properties;
    t.equal(area.enum ?? area.oneOf.map(choice => choice.const), ['stalls', 'balcony'], 'the choices of an area');
    t.equal(area.enumNames ?? area.oneOf.map(choice => choice.title), ['Stalls, near the stage', 'Balcony, with a view'], 'their titles');
    if (revision >= '2025-11-25') {
        t.equal(extras.extras.items.anyOf.map(choice => choice.const), ['wheelchair', 'programme'], 'the choices of extras');
        t.equal([extras.extras.type, extras.extras.maxItems], ['array', 2], 'how many extras');
    } else {
        t.equal(Object.keys(extras).sort(), ['extras.programme', 'extras.wheelchair'], 'one question for each extra');
        t.ok(Object.values(extras).every(extra => extra.type === 'boolean'), 'an extra is a yes or a no', extras);
    }
    t.equal(pay.requestedSchema.properties.sure.type, 'boolean', 'the last form');

    user.asked = [];
    user.answer = () => cancelled;
    t.equal(await said(t, client, 'book_seats', { play }), 'nothing was booked', 'who cancels books nothing');
    t.equal(user.asked.length, 1, 'who cancels is asked nothing more');
}

async function checkConfirmation(t, client, user, revision) {
    const play = newPlay();
    const number = await book(t, client, user, revision, play);
    const question = `Cancel booking ${number}, 2 seats for Grace (${play})?`;
    const kept = `booking ${number} was kept`;
    const answers = [
        [declined, kept],
        [cancelled, kept],
        [accept({ sure: false }), kept],
        [sure, `booking ${number} is cancelled`],
    ];
    for (const [answer, told] of answers) {
        user.asked = [];
        user.answer = () => answer;
        t.equal(await said(t, client, 'cancel_booking', { number }), told, `the answer ${JSON.stringify(answer)}`);
        t.equal(user.asked.map(params => params.message), [question], 'the question before a booking is cancelled');
    }
    user.asked = [];
    t.equal(await said(t, client, 'cancel_booking', { number }), `booking ${number} not found`, 'a booking that is gone');
    t.equal(user.asked, [], 'nobody is asked about a booking that is gone');
}

/** The hall has twelve seats: held twice or never given back, they would run out. */
async function checkSeats(t, client, user, revision) {
    const play = newPlay();
    const eight = answers(revision, play, 8);
    const all = [
        [declined, 'nothing was booked'],
        [declined, 'nothing was booked'],
        [sure, /^booking \d+: 8 seats in the Balcony/],
        [sure, `not enough seats left for ${play}`],
    ];
    for (const [last, told] of all) {
        user.answer = message => (message.endsWith('Book them?') ? last : eight[message]);
        const seen = await said(t, client, 'book_seats', { play });
        t.ok(told instanceof RegExp ? told.test(seen) : told === seen, `what is told of eight seats: ${told}`, seen);
    }
}

/** Calls that ask at the same time, for one user. */
async function checkSeveral(t, client, user, revision) {
    const parties = Array.from({ length: 4 }, (_, index) => ({ play: newPlay(), seats: index + 1, name: `Guest ${index + 1}` }));
    const all = Object.assign({}, ...parties.map(({ play, seats, name }) => answers(revision, play, seats, name)));
    user.answer = message => all[message];
    const told = await Promise.all(parties.map(({ play }) => said(t, client, 'book_seats', { play })));
    told.forEach((seen, index) => t.includes(seen, `: ${index + 1} seats in the Balcony`, 'what several calls book at once'));
}

/** While a call waits, an answer that does not fit its question ends it; round by round, the question is asked again. */
async function checkBadAnswer(t, client, user, revision) {
    const play = newPlay();
    const good = answers(revision, play);
    user.asked = [];
    const tooMany = accept({ name: 'Grace', seats: 99 });
    user.answer = message => (user.asked.length === 1 ? tooMany : good[message]);
    const call = client.call('book_seats', { play });
    if (revision >= '2026-07-28') {
        t.includes(text((await call).content[0]), ': 2 seats in the Balcony', 'a good answer after a bad one');
        t.equal(user.asked.length, 4, 'a question is asked again');
        t.equal(user.asked[0].message, user.asked[1].message, 'the question that is asked again');
    } else {
        checkError(t, client, await caught(call), -32603, 'a bad answer', 'seats', '99');
        t.equal(user.asked.length, 1, 'nothing is asked after a bad answer');
    }
}

/** Books two seats, and gives the booking's number. */
async function book(t, client, user, revision, play) {
    const all = answers(revision, play);
    user.answer = message => all[message];
    const told = await said(t, client, 'book_seats', { play });
    const number = Number(/^booking (\d+): /.exec(told)?.[1]);
    const booked = `booking ${number}: 2 seats in the Balcony, with [Programme]; the tickets go to grace@example.com`;
    t.equal(told, booked, 'what is booked');
    return number;
}

/** The three questions of a booking, and their answers. */
function answers(revision, play, seats = 2, name = 'Grace') {
    const extras = revision >= '2025-11-25' ? { extras: ['programme'] } : { 'extras.programme': true, 'extras.wheelchair': false };
    return {
        [`Who would like to see ${play}?`]: accept({ name, email: 'grace@example.com', seats }),
        [`Where would you like to sit, ${name}?`]: accept({ area: 'balcony', ...extras }),
        [`${seats} seats for ${play} cost ${seats * 25} francs. Book them?`]: sure,
    };
}

/** A play that nobody has booked yet. */
function newPlay() {
    return `Faust ${Math.random().toString(36).slice(2, 8)}`;
}

async function said(t, client, name, args) {
    const result = await client.call(name, args);
    t.ok(!result.isError, `${name} succeeds`, result);
    return text(result.content[0]);
}

/** The text of a block; where there may be one block or several, of the only one. */
function text(content) {
    return [content].flat()[0].text;
}
