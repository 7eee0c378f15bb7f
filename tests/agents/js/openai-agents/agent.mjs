import { Agent, MCPServerStdio, MCPServerStreamableHttp, run, setTracingDisabled, Usage } from '@openai/agents';

import { Client, main, versionOf } from '../common.mjs';

setTracingDisabled(true);

/** A model that first calls a tool, if it is given one, and then replies. */
class ScriptedModel {
    requests = [];

    constructor(call) {
        this.reply = { type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'Done.' }] };
        this.script = call ? [{ ...call, type: 'function_call', callId: 'call-1', status: 'completed' }] : [];
    }

    async getResponse(request) {
        this.requests.push(request);
        return { usage: new Usage(), output: [this.script.shift() ?? this.reply] };
    }
}

export class OpenAiAgents extends Client {
    strict = false;

    async open() {
        const options = { name: 'server', cacheToolsList: true };
        const { url } = this;
        this.server = url ? new MCPServerStreamableHttp({ ...options, url: url.href }) : new MCPServerStdio({ ...options, ...this.process });
        await this.server.connect();
    }

    async close() {
        await this.server.close();
    }

    async run(call) {
        const model = new ScriptedModel(call);
        const mcpConfig = { convertSchemasToStrict: this.strict };
        await run(new Agent({ name: 'agent', model, mcpServers: [this.server], mcpConfig }), 'Hello');
        return model.requests;
    }

    async tools() {
        const [{ tools }] = await this.run();
        const note = tool => (this.strict && !tool.strict ? { 'x-note': 'not strict' } : {});
        return Object.fromEntries(tools.map(tool => [tool.name, { ...tool.parameters, ...note(tool) }]));
    }

    async call(name, args) {
        const [, { input }] = await this.run({ name, arguments: JSON.stringify(args) });
        return input.at(-1).output;
    }

    async resources() {
        return (await this.server.listResources()).resources;
    }

    async read(uri) {
        return (await this.server.readResource(uri)).contents;
    }
}

/** Runs the plan, with schemas as they are or in OpenAI's strict subset. */
export function runPlan(framework, connect) {
    return main({ framework, version: versionOf('@openai/agents', import.meta.url) }, connect);
}
