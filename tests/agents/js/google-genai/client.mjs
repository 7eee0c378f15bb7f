import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';

import { GoogleGenAI, mcpToTool } from '@google/genai';
import { Client as McpClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

import { Client, main, versionOf } from '../common.mjs';

/** A Gemini endpoint whose model first calls a tool, if it is given one, and then replies. */
class ScriptedModel {
    requests = [];

    constructor(call) {
        this.script = call ? [{ functionCall: call }] : [];
        this.server = createServer(async (request, response) => {
            this.requests.push(await json(request));
            const part = this.script.shift() ?? { text: 'Done.' };
            response.setHeader('content-type', 'application/json');
            response.end(JSON.stringify({ candidates: [{ content: { role: 'model', parts: [part] }, finishReason: 'STOP' }] }));
        });
    }

    async listen() {
        await new Promise(done => this.server.listen(0, '127.0.0.1', done));
        return `http://127.0.0.1:${this.server.address().port}`;
    }
}

class GoogleGenAi extends Client {
    static answersForms = true; // by the SDK's client, which the user passes to the framework
    static ownMessages = /SSE stream disconnected: AbortError/; // when the SDK's client closes its own stream

    async open() {
        this.client = new McpClient({ name: 'google-genai', version: '1.0.0' }, { capabilities: this.answer ? { elicitation: {} } : {} });
        if (this.answer) {
            const reply = ({ params }) => ({ action: 'accept', content: this.answer(params.requestedSchema) });
            this.client.setRequestHandler(ElicitRequestSchema, reply);
        }
        this.client.onerror = error => console.error(error);
        await this.client.connect(this.url ? new StreamableHTTPClientTransport(this.url) : new StdioClientTransport(this.process));
    }

    async close() {
        await this.client.close();
    }

    async run(call) {
        const model = new ScriptedModel(call);
        const ai = new GoogleGenAI({ apiKey: 'none', httpOptions: { baseUrl: await model.listen() } });
        try {
            await ai.models.generateContent({ model: 'scripted', contents: 'Hello', config: { tools: [mcpToTool(this.client)] } });
        } finally {
            model.server.close();
        }
        return model.requests;
    }

    async tools() {
        const [{ tools }] = await this.run();
        return Object.fromEntries(tools[0].functionDeclarations.map(tool => [tool.name, tool.parametersJsonSchema ?? tool.parameters]));
    }

    async call(name, args) {
        const [, request] = await this.run({ name, args });
        if (!request) throw new Error('the run ended without a response to the call');
        return request.contents.at(-1);
    }

    async resources() {
        return (await this.client.listResources()).resources;
    }

    async read(uri) {
        return (await this.client.readResource({ uri })).contents;
    }
}

const name = '@google/genai';
await main({ framework: name, version: versionOf(name, import.meta.url) }, GoogleGenAi);
