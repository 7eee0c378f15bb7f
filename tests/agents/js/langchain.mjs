// The model of the LangChain clients.

/** Returns the class of models that first call a tool, if they are given one, and then reply. */
export function scriptedModel({ BaseChatModel, AIMessage, convertToOpenAITool }) {
    return class ScriptedModel extends BaseChatModel {
        constructor(call) {
            super({});
            this.script = call ? [new AIMessage({ content: '', tool_calls: [{ ...call, id: 'call-1', type: 'tool_call' }] })] : [];
        }

        _llmType() {
            return 'scripted';
        }

        bindTools(tools) {
            this.bound = Object.fromEntries(tools.map(tool => [tool.name, convertToOpenAITool(tool).function.parameters]));
            return this;
        }

        async _generate(messages) {
            this.messages = messages;
            const message = this.script.shift() ?? new AIMessage('Done.');
            return { generations: [{ message, text: '' }] };
        }
    };
}
