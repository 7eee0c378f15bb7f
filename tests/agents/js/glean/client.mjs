import { closeMCPClient, createMCPClientForConfig, createMCPFixture, extractText, normalizeToolResponse } from '@gleanwork/mcp-server-tester';

import { Client, main, versionOf } from '../common.mjs';

class ServerTester extends Client {
    async open() {
        const config = this.url ? { transport: 'http', serverUrl: this.url.href } : { transport: 'stdio', ...this.process };
        this.client = await createMCPClientForConfig(config);
        this.fixture = createMCPFixture(this.client);
    }

    async close() {
        await closeMCPClient(this.client);
    }

    async tools() {
        return Object.fromEntries((await this.fixture.listTools()).map(tool => [tool.name, tool.inputSchema]));
    }

    async call(name, args) {
        const result = await this.fixture.callTool(name, args).catch(error => error);
        if (result instanceof Error) return result.message; // the author of a test reads it
        return { isError: result.isError, text: extractText(result), normalized: normalizeToolResponse(result) };
    }
}

const name = '@gleanwork/mcp-server-tester';
await main({ framework: name, version: versionOf(name, import.meta.url) }, ServerTester);
