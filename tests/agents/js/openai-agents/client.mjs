import { OpenAiAgents, runPlan } from './agent.mjs';

await runPlan('@openai/agents', OpenAiAgents);
