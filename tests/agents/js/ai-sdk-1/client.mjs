import { createMCPClient, ElicitationRequestSchema } from '@ai-sdk/mcp';
import { Experimental_StdioMCPTransport as StdioTransport } from '@ai-sdk/mcp/mcp-stdio';
import { generateText, stepCountIs as stopAfter } from 'ai';
import { MockLanguageModelV3 as MockModel } from 'ai/test';

import { run } from '../ai-sdk.mjs';

await run('@ai-sdk/mcp 1', import.meta.url, { createMCPClient, ElicitationRequestSchema, StdioTransport, generateText, MockModel, stopAfter });
