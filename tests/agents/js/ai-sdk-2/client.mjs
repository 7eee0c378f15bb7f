import { createMCPClient, ElicitationRequestSchema } from '@ai-sdk/mcp';
import { Experimental_StdioMCPTransport as StdioTransport } from '@ai-sdk/mcp/mcp-stdio';
import { generateText, isStepCount as stopAfter } from 'ai';
import { MockLanguageModelV4 as MockModel } from 'ai/test';

import { run } from '../ai-sdk.mjs';

await run('@ai-sdk/mcp 2', import.meta.url, { createMCPClient, ElicitationRequestSchema, StdioTransport, generateText, MockModel, stopAfter });
