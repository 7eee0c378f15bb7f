import '../quiet.mjs';

import { MCPClientManager } from '@mcpjam/sdk';
import { generateText, stepCountIs as stopAfter } from 'ai';
import { MockLanguageModelV3 as MockModel } from 'ai/test';

import { aiSdkClient } from '../ai-sdk.mjs';
import { main, versionOf } from '../common.mjs';

class McpJam extends aiSdkClient({ generateText, MockModel, stopAfter }) {
    static answersForms = true;

    async open() {
        this.manager = new MCPClientManager();
        if (this.answer) {
            this.manager.setElicitationCallback(async ({ schema }) => ({ action: 'accept', content: this.answer(schema) }));
        }
        await this.manager.connectToServer('server', this.url ? { url: this.url.href } : this.process);
    }

    async close() {
        await this.manager.disconnectServer('server');
    }

    async toolSet() {
        return this.manager.getToolsForAiSdk(['server']);
    }

    async resources() {
        return (await this.manager.listResources('server')).resources;
    }

    async read(uri) {
        return (await this.manager.readResource('server', { uri })).contents;
    }

    async prompts() {
        return (await this.manager.listPrompts('server')).prompts;
    }

    async prompt(name, args) {
        return (await this.manager.getPrompt('server', { name, arguments: args })).messages;
    }
}

await main({ framework: '@mcpjam/sdk', version: versionOf('@mcpjam/sdk', import.meta.url) }, McpJam);
