import { BaseChatModel } from '@langchain/core/language_models/chat_models';
import { AIMessage } from '@langchain/core/messages';
import { convertToOpenAITool } from '@langchain/core/utils/function_calling';
import { MultiServerMCPClient } from '@langchain/mcp-adapters';
import { createAgent } from 'langchain';

import { Client, main, versionOf } from '../common.mjs';
import { scriptedModel } from '../langchain.mjs';

const ScriptedModel = scriptedModel({ BaseChatModel, AIMessage, convertToOpenAITool });

class LangChain extends Client {
    async open() {
        const server = this.url ? { transport: 'http', url: this.url.href } : { transport: 'stdio', ...this.process };
        this.client = new MultiServerMCPClient({ mcpServers: { server } });
        await this.client.initializeConnections();
    }

    async close() {
        await this.client.close();
    }

    async run(call) {
        const model = new ScriptedModel(call);
        const agent = createAgent({ model, tools: await this.client.getTools() });
        await agent.invoke({ messages: [{ role: 'user', content: 'Hello' }] });
        return model;
    }

    async tools() {
        return (await this.run()).bound;
    }

    async call(name, args) {
        return (await this.run({ name, args })).messages.at(-1).content;
    }

    async resources() {
        return this.client.listResources();
    }

    async read(uri) {
        return this.client.readResource('server', uri);
    }
}

const name = '@langchain/mcp-adapters';
await main({ framework: name, version: versionOf(name, import.meta.url) }, LangChain);
