// The clients of AI SDK tools: `generateText` runs the tools that a scripted model calls.

import { Client, main, versionOf } from './common.mjs';

/** A client whose subclasses return AI SDK tools from `toolSet`. `ai` is the package of that name, with its mocks. */
export function aiSdkClient({ generateText, MockModel, stopAfter }) {
    return class extends Client {
        async tools() {
            const [{ tools }] = await this.generate([]);
            return Object.fromEntries(tools.map(tool => [tool.name, tool.inputSchema]));
        }

        async call(name, args) {
            const call = { type: 'tool-call', toolCallId: 'call-1', toolName: name, input: JSON.stringify(args) };
            const [, { prompt }] = await this.generate([call]);
            return prompt.at(-1).content;
        }

        /** Runs the agent, whose model first replies with `content`. Returns the requests to the model. */
        async generate(content) {
            const count = { total: 1 };
            const model = new MockModel({
                doGenerate: async () => {
                    const first = model.doGenerateCalls.length === 1 && content.length > 0;
                    return {
                        content: first ? content : [{ type: 'text', text: 'Done.' }],
                        finishReason: { unified: first ? 'tool-calls' : 'stop' },
                        usage: { inputTokens: count, outputTokens: count },
                        warnings: [],
                    };
                },
            });
            await generateText({ model, tools: await this.toolSet(), prompt: 'Hello', stopWhen: stopAfter(3), maxRetries: 0 });
            return model.doGenerateCalls;
        }
    };
}

/** Runs the plan with @ai-sdk/mcp, whose versions 1 and 2 have the same functions. */
export function run(name, url, { createMCPClient, ElicitationRequestSchema, StdioTransport, ...ai }) {
    class AiSdk extends aiSdkClient(ai) {
        static answersForms = true;

        async open() {
            this.client = await createMCPClient({
                transport: this.url ? { type: 'http', url: this.url.href } : new StdioTransport(this.process),
                capabilities: this.answer && { elicitation: { form: {} } },
                onUncaughtError: error => console.error(error),
            });
            if (!this.answer) return;
            this.client.onElicitationRequest(ElicitationRequestSchema, ({ params }) => {
                return { action: 'accept', content: this.answer(params.requestedSchema) };
            });
        }

        async close() {
            await this.client.close();
        }

        async toolSet() {
            return this.client.tools();
        }

        async resources() {
            return (await this.client.listResources()).resources;
        }

        async read(uri) {
            return (await this.client.readResource({ uri })).contents;
        }

        async prompts() {
            return (await this.client.experimental_listPrompts()).prompts;
        }

        async prompt(name, args) {
            return (await this.client.experimental_getPrompt({ name, arguments: args })).messages;
        }
    }
    return main({ framework: name, version: versionOf('@ai-sdk/mcp', url) }, AiSdk);
}
