// Connects a page to its host: MCP Apps, extension `io.modelcontextprotocol/ui`, 2026-01-26.
//
//     const app = mcp.app();
//     app.on("result", result => draw(result.value));
(() => {
    "use strict";

    // Notifications of the host. Handlers that are added later receive the latest one at once.
    const EVENTS = {
        "ui/notifications/tool-input-partial": "partial-input",
        "ui/notifications/tool-input": "input",
        "ui/notifications/tool-result": "result",
        "ui/notifications/tool-cancelled": "cancelled",
        "ui/notifications/host-context-changed": "context",
    };
    const root = document.documentElement;
    let app;

    class App {
        #handlers = {};
        #latest = {};
        #pending = new Map();
        #lastId = 0;

        // The theme, sizes, locale and so on of the host. Changes are merged into it.
        context = {};

        constructor({ name = document.title || "page", version = "0.0.0", displayModes = ["inline"] } = {}) {
            addEventListener("message", event => event.source === parent && this.#receive(event.data));
            // Resolves to the capabilities and the name of the host.
            this.ready = this.#connect({ name, version }, { availableDisplayModes: displayModes });
        }

        // Calls `handler` for each event: "partial-input", "input", "result", "cancelled", "context", "teardown".
        on(event, handler) {
            (this.#handlers[event] ??= []).push(handler);
            if (event in this.#latest) handler(this.#latest[event]);
            return this;
        }

        // Calls a tool of the server. Returns its result, with `isError` if the tool failed, and with its value.
        call(name, args = {}) {
            return this.request("tools/call", { name, arguments: args }).then(withValue);
        }

        // Reads a resource of the server.
        read(uri) {
            return this.request("resources/read", { uri });
        }

        // Tells the model about the state of the page. Each call replaces the previous text and data.
        updateModelContext(context) {
            return this.request("ui/update-model-context", typeof context === "string" ? { content: text(context) } : context);
        }

        // Sends a message to the chat in the name of the user. The schema defines its content as a list of blocks, which hosts
        // expect; the text of the specification shows a single block.
        sendMessage(content) {
            return this.request("ui/message", { role: "user", content: typeof content === "string" ? text(content) : content });
        }

        // Asks the host to open a URL outside of the page.
        openLink(url) {
            return this.request("ui/open-link", { url: String(url) });
        }

        // Asks for "inline", "fullscreen" or "pip". Returns the mode that the page then has.
        async requestDisplayMode(mode) {
            await this.ready;
            if (!this.context.availableDisplayModes?.includes(mode)) return this.context.displayMode ?? "inline";
            const changed = await this.request("ui/request-display-mode", { mode });
            this.#merge({ displayMode: changed.mode });
            return changed.mode;
        }

        // Writes to the log of the host.
        log(level, data) {
            return this.ready.then(() => this.notify("notifications/message", { level, data }));
        }

        // Sends a request to the host after the handshake.
        request(method, params) {
            return this.ready.then(() => this.#send(method, params));
        }

        notify(method, params) {
            post({ method, params });
        }

        async #connect(appInfo, appCapabilities) {
            if (parent === window) throw new Error("the page is not shown by an MCP host");
            const host = await this.#send("ui/initialize", { protocolVersion: "2026-01-26", appInfo, appCapabilities });
            this.#merge(host.hostContext);
            this.notify("ui/notifications/initialized", {});
            this.#reportSize();
            return host;
        }

        #send(method, params) {
            const id = ++this.#lastId;
            post({ id, method, params });
            return new Promise((resolve, reject) => this.#pending.set(id, { resolve, reject }));
        }

        async #receive(message) {
            if (message?.jsonrpc !== "2.0") return;
            const { id, method, params = {} } = message;
            if (method === undefined) {
                const { resolve, reject } = this.#pending.get(id) ?? {};
                this.#pending.delete(id);
                const { error, result } = message;
                if (error) reject?.(Object.assign(new Error(error.message), { code: error.code, data: error.data }));
                else resolve?.(result);
            } else if (id === undefined) {
                const event = EVENTS[method];
                if (event === "context") this.#merge(params);
                else if (event === "result") this.#emit(event, withValue(params));
                else if (event) this.#emit(event, event.endsWith("input") ? (params.arguments ?? {}) : params);
            } else {
                post({ id, ...(await this.#answer(method, params)) });
            }
        }

        // Answers a request of the host.
        async #answer(method, params) {
            if (method === "ping") return { result: {} };
            if (method !== "ui/resource-teardown") return { error: { code: -32601, message: `unknown method ${method}` } };
            try {
                await this.#emit("teardown", params);
                return { result: {} };
            } catch (error) {
                return { error: { code: -32000, message: String(error) } };
            }
        }

        // An exception in one handler is reported by the browser and does not stop the others.
        #emit(event, value) {
            if (event === "input") delete this.#latest["partial-input"];
            if (event !== "teardown") this.#latest[event] = value;
            return Promise.all((this.#handlers[event] ?? []).map(async handler => handler(value)));
        }

        // Merges changes into the context, and applies the theme, variables and fonts of the host to the page.
        #merge(changes = {}) {
            Object.assign(this.context, changes);
            const { theme, styles } = changes;
            if (theme) {
                root.dataset.theme = theme;
                root.style.colorScheme = theme;
            }
            for (const [name, value] of Object.entries(styles?.variables ?? {})) root.style.setProperty(name, value ?? "");
            if (styles?.css?.fonts) {
                const id = "mcp-fonts";
                const style = document.getElementById(id) ?? document.head.appendChild(document.createElement("style"));
                Object.assign(style, { id, textContent: styles.css.fonts });
            }
            this.#emit("context", this.context);
        }

        // Reports the size of the content whenever it changes. The width includes a scroll bar, which must not shrink the page.
        #reportSize() {
            let last;
            new ResizeObserver(() => {
                const size = { width: innerWidth, height: Math.ceil(root.getBoundingClientRect().height) };
                if (last?.width === size.width && last.height === size.height) return;
                last = size;
                this.notify("ui/notifications/size-changed", size);
            }).observe(root);
        }
    }

    const text = text => [{ type: "text", text }];

    // Adds what the tool returned. Before 2026-07-28, servers wrap a value that is not an object in `{ result: … }`.
    const withValue = result => {
        const value = result.structuredContent;
        return Object.assign(result, { value: Object.keys(Object(value)).join() === "result" ? value.result : value });
    };

    // The host's origin is unknown to the page, and its messages contain nothing that the host does not know.
    const post = message => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");

    window.mcp = { app: options => (app ??= new App(options)) };
})();
