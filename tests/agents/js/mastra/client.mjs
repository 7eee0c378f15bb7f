import { Agent } from '@mastra/core/agent';
import { MCPClient } from '@mastra/mcp';

import { Client, main, versionOf } from '../common.mjs';

/** A model that first calls a tool, if it is given one, and then replies. */
class ScriptedModel {
    specificationVersion = 'v2';
    provider = 'scripted';
    modelId = 'scripted';
    supportedUrls = {};
    requests = [];

    constructor(call) {
        this.script = call ? [{ ...call, type: 'tool-call', toolCallId: 'call-1' }] : [];
    }

    async doGenerate(request) {
        this.requests.push(request);
        const call = this.script.shift();
        return {
            content: [call ?? { type: 'text', text: 'Done.' }],
            finishReason: call ? 'tool-calls' : 'stop',
            usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 },
            warnings: [],
        };
    }
}

class Mastra extends Client {
    static answersForms = true;
    static ownMessages = /Error calling tool: (delete_note|test_error_handling|test_sampling|book_seats) /;

    async open() {
        const inputRequests = this.answer && (async ({ params }) => ({ action: 'accept', content: this.answer(params.requestedSchema) }));
        const server = this.url ? { url: this.url } : this.process;
        this.client = new MCPClient({ id: crypto.randomUUID(), servers: { server: { ...server, inputRequests } } });
    }

    async close() {
        await this.client.disconnect();
    }

    async run(call) {
        const model = new ScriptedModel(call);
        const tools = await this.client.listTools();
        await new Agent({ id: 'agent', name: 'agent', instructions: 'Help.', model, tools }).generate('Hello', { maxSteps: 3 });
        return model.requests;
    }

    async tools() {
        const [{ tools }] = await this.run();
        return Object.fromEntries(tools.map(tool => [tool.name, tool.inputSchema]));
    }

    async call(name, args) {
        const [, request] = await this.run({ toolName: `server_${name}`, input: JSON.stringify(args) });
        if (!request) throw new Error('the run ended without a response to the call');
        return request.prompt.at(-1).content;
    }

    async resources() {
        return (await this.client.resources.list()).server;
    }

    async read(uri) {
        return (await this.client.resources.read('server', uri)).contents;
    }

    async prompts() {
        return (await this.client.prompts.list()).server;
    }

    async prompt(name, args) {
        return this.client.prompts.get({ serverName: 'server', name, args });
    }
}

const name = '@mastra/mcp';
await main({ framework: name, version: versionOf(name, import.meta.url) }, Mastra);
