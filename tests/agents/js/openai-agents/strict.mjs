import { OpenAiAgents, runPlan } from './agent.mjs';

class Strict extends OpenAiAgents {
    strict = true;
}

await runPlan('@openai/agents (strict)', Strict);
