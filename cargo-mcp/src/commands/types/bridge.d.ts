/** The connection of a page to its host. */
declare namespace mcp {
  /** Connects the page. Further calls return the same object. */
  function app(options?: { name?: string; version?: string; displayModes?: DisplayMode[] }): App;

  interface App {
    /** Resolves after the handshake. Requests wait for it. */
    readonly ready: Promise<{ hostInfo: { name: string; version: string }; hostCapabilities: Record<string, unknown> }>;
    /** The theme, sizes, locale and so on of the host. The theme and the style variables are also applied to the page. */
    readonly context: Context;
    /** Calls the handler for each event, and at once if the event has already happened. */
    on(event: "result", handler: (result: Result<any>) => unknown): this;
    on(event: "input" | "partial-input", handler: (input: any) => unknown): this;
    on(event: "cancelled", handler: (params: { reason?: string }) => unknown): this;
    on(event: "context", handler: (context: Context) => unknown): this;
    /** The host waits for the promise that the handler returns before it removes the page. */
    on(event: "teardown", handler: (params: { reason?: string }) => unknown): this;
    /** Calls a tool of the server. */
    call<Name extends keyof Tools>(
      name: Name,
      ...input: {} extends Tools[Name]["input"] ? [input?: Tools[Name]["input"]] : [input: Tools[Name]["input"]]
    ): Promise<Result<Tools[Name]["output"]>>;
    /** Reads a resource of the server. */
    read(uri: string): Promise<{ contents: { uri: string; mimeType?: string; text?: string; blob?: string }[] }>;
    /** Tells the model about the state of the page. Each call replaces the previous context. */
    updateModelContext(context: string | { content?: Content[]; structuredContent?: Record<string, unknown> }): Promise<unknown>;
    /** Sends a message to the chat in the name of the user. */
    sendMessage(content: string | Content[]): Promise<{ isError?: boolean }>;
    /** Asks the host to open a URL outside of the page. */
    openLink(url: string | URL): Promise<{ isError?: boolean }>;
    /** Asks for a display mode. Returns the mode that the page then has. */
    requestDisplayMode(mode: DisplayMode): Promise<DisplayMode>;
    /** Writes to the log of the host. */
    log(level: "debug" | "info" | "notice" | "warning" | "error" | "critical" | "alert" | "emergency", data: unknown): Promise<void>;
    /** Sends any other request after the handshake. */
    request(method: string, params?: object): Promise<any>;
    /** Sends any other notification. */
    notify(method: string, params?: object): void;
  }

  type DisplayMode = "inline" | "fullscreen" | "pip";

  /** A content block of the protocol. */
  type Content = { type: string; text?: string; [member: string]: unknown };

  /** The result of a tool. */
  interface Result<Output> {
    /** What the tool returned, if it has an output schema. Absent if it failed. */
    value?: Value<Output>;
    content: Content[];
    /** The same, but before revision 2026-07-28, a value that is not an object is wrapped as `{ result: … }`. */
    structuredContent?: unknown;
    isError?: boolean;
    _meta?: Record<string, unknown>;
  }

  /** The output, or its member `result` if it has no other: the two cannot be distinguished in the protocol. */
  type Value<Output> = keyof Output extends "result" ? (Output extends { result: infer Inner } ? Inner : Output) : Output;

  interface Context {
    theme?: "light" | "dark";
    displayMode?: DisplayMode;
    availableDisplayModes?: DisplayMode[];
    containerDimensions?: { width?: number; maxWidth?: number; height?: number; maxHeight?: number };
    locale?: string;
    timeZone?: string;
    [member: string]: unknown;
  }
}
