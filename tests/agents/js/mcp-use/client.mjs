import '../quiet.mjs';

import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { AIMessage } from '@langchain/core/messages';
import { convertToOpenAITool } from '@langchain/core/utils/function_calling';
import { MCPAgent, MCPClient } from 'mcp-use';

import { Client, main, versionOf } from '../common.mjs';
import { scriptedModel } from '../langchain.mjs';

const ScriptedModel = scriptedModel({ BaseChatModel, AIMessage, convertToOpenAITool });

class McpUse extends Client {
    static answersForms = true;
    static ownMessages = /Error executing MCP tool: /; // the model reads them too

    async open() {
        const onElicitation = this.answer && (async params => ({ action: 'accept', content: this.answer(params.requestedSchema) }));
        const server = this.url ? { url: this.url.href } : this.process;
        this.client = new MCPClient({ mcpServers: { server: { ...server, onElicitation } } });
        this.session = await this.client.createSession('server');
    }

    async close() {
        await this.client.closeAllSessions();
    }

    async run(call) {
        const llm = new ScriptedModel(call);
        const agent = new MCPAgent({ llm, client: this.client, exposeResourcesAsTools: false, exposePromptsAsTools: false });
        await agent.initialize();
        await agent.run({ prompt: 'Hello' });
        return llm;
    }

    async tools() {
        return (await this.run()).bound;
    }

    async call(name, args) {
        return (await this.run({ name, args })).messages.at(-1).content;
    }

    async resources() {
        return (await this.session.listAllResources()).resources;
    }

    async read(uri) {
        return (await this.session.readResource(uri)).contents;
    }

    async prompts() {
        return (await this.session.listPrompts()).prompts;
    }

    async prompt(name, args) {
        return (await this.session.getPrompt(name, args)).messages;
    }
}

await main({ framework: 'mcp-use (npm)', version: versionOf('mcp-use', import.meta.url) }, McpUse);
