// The checks of programs between a client and a server: the client is that of the TypeScript SDK.

import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

import { Client as McpClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { ElicitRequestSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';

import { Behaviour, Client, main, versionOf } from '../js/common.mjs';

/** A connection through a middleman. Subclasses return the client's transport from `connect`. */
export class Middleman extends Client {
    static answersForms = true;
    static ownMessages = /SSE stream disconnected: (AbortError|TypeError: terminated)/; // when the SDK's client closes its own stream

    async open() {
        this.client = new McpClient({ name: 'middlemen', version: '1.0.0' }, { capabilities: this.answer ? { elicitation: {} } : {} });
        if (this.answer) {
            const reply = ({ params }) => ({ action: 'accept', content: this.answer(params.requestedSchema) });
            this.client.setRequestHandler(ElicitRequestSchema, reply);
        }
        this.client.onerror = error => console.error(error);
        await this.client.connect(await this.connect());
    }

    async close() {
        await this.client.close();
    }

    /** Returns a transport to a middleman that is started as a stdio server. */
    startOverStdio(...args) {
        const transport = new StdioClientTransport({ command: process.execPath, args, stderr: 'pipe' });
        createInterface({ input: transport.stderr }).on('line', line => {
            if (/error|warn/i.test(line)) console.error(line);
        });
        return transport;
    }

    async tools() {
        return (await this.client.listTools()).tools.map(tool => tool.name);
    }

    async call(name, args, options) {
        try {
            return (await this.client.callTool({ name, arguments: args }, undefined, options)).content;
        } catch (error) {
            if (error.code === undefined) throw error;
            return error.message; // the error that the server responded with
        }
    }

    async resources() {
        return (await this.client.listResources()).resources;
    }

    async read(uri) {
        return (await this.client.readResource({ uri })).contents;
    }

    async prompts() {
        return (await this.client.listPrompts()).prompts;
    }

    async prompt(name, args) {
        return (await this.client.getPrompt({ name, arguments: args })).messages;
    }

    /** Returns the messages of progress notifications of a call. */
    async progress() {
        const messages = [];
        await this.call('test_tool_with_progress', {}, { onprogress: ({ message }) => messages.push(message) });
        return messages;
    }

    /** Cancels a call after it has started. Returns the number of calls that still run. */
    async cancel() {
        const controller = new AbortController();
        const call = this.client.callTool({ name: 'test_cancellation', arguments: {} }, undefined, { signal: controller.signal });
        const ended = call.then(() => 'a result', error => `an error: ${error.message}`);
        await this.untilRunning('1');
        controller.abort('cancelled by the check');
        return `${await ended}, ${await this.untilRunning('0')} running`;
    }

    /** Waits for a number of running calls of `test_cancellation`, and returns the last number seen. */
    async untilRunning(expected) {
        let running;
        for (let attempt = 0; attempt < 100 && running !== expected; attempt++) {
            if (running) await sleep(50);
            [{ text: running }] = await this.call('test_running_calls', {});
        }
        return running;
    }

    /** Has the server change its list of tools. Returns the notification. */
    async notification() {
        const notified = new Promise(resolve => this.client.setNotificationHandler(ToolListChangedNotificationSchema, resolve));
        await this.call('test_trigger_tool_change', {});
        const notification = await notified;
        await this.call('test_trigger_tool_change', {});
        return notification;
    }
}

class MiddlemanBehaviour extends Behaviour {
    async run() {
        if (this.connect.over.includes(this.target.transport)) await super.run();
    }

    async everything() {
        await super.everything();
        await this.connected(async client => {
            await this.check('progress', () => client.progress(), 'Completed step 0 of 100', 'Completed step 50', 'Completed step 100');
            await this.check('cancel', () => client.cancel(), 'cancelled by the check, 0 running');
            await this.check('notification', () => client.notification(), 'notifications/tools/list_changed');
        });
    }
}

/** Runs the plan with a middleman, which is a package beside this file. */
export function run(name, middleman) {
    return main({ framework: name, version: versionOf(name, import.meta.url) }, middleman, MiddlemanBehaviour);
}
