/// A part of the protocol that only some revisions have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Feature {
    /// `initialize` opens a session, and what it negotiates applies to every later message.
    Handshake,
    /// Every request states its version and the client's capabilities in `_meta`, and `server/discover` exists.
    RequestMeta,
    /// One transmission may be an array of messages.
    Batching,
    /// `annotations` of tools, such as `readOnlyHint`.
    ToolAnnotations,
    /// Audio content.
    Audio,
    /// `message` in progress notifications.
    ProgressMessage,
    /// The `completions` capability. Servers of revisions without it complete arguments without declaring it.
    CompletionsCapability,
    /// `title` in addition to `name`.
    Titles,
    /// `_meta` on tools, resources, resource templates, prompts, content blocks and the contents of resources. Results
    /// and notifications have `_meta` in every revision, and prompt messages in none.
    ItemMeta,
    /// `lastModified` in annotations.
    LastModified,
    /// `resource_link` content.
    ResourceLinks,
    /// `outputSchema` and `structuredContent`, which must be an object.
    StructuredContent,
    /// `structuredContent` may be any JSON value.
    StructuredAnyValue,
    /// `icons`, and a description and website of the server.
    Icons,
    /// A request that needs a capability which the client has not declared must fail with a JSON-RPC error, whose data
    /// lists the capabilities.
    CapabilityErrors,
    /// An error response to a request without a readable id omits `id` instead of sending `null`.
    AbsentErrorId,
    /// `resultType` in every result, and the server's identity in its `_meta`.
    ResultType,
    /// `ttlMs` and `cacheScope` in results that clients may cache.
    CacheHints,
    /// `ping`.
    Ping,
    /// `logging/setLevel`.
    LogLevel,
    /// `resources/subscribe` and `resources/unsubscribe`.
    ResourceSubscriptions,
    /// The server may end the event stream of a response and let the client resume it. Such streams begin with an event
    /// that carries an id and no message.
    StreamPolling,
    /// `subscriptions/listen`, a request whose response is a stream of notifications.
    Listening,
    /// `tasks/list`, `tasks/result` and the `task` parameter, with which a client turns a call into a task.
    SessionTasks,
    /// The tasks extension: clients declare support, and the server decides which calls become tasks.
    TaskExtension,
    /// `elicitation/create` with a form.
    Elicitation,
    /// `mode` of an elicitation, defaults of every type, titled choices, and fields with several choices.
    RichForms,
    /// Elicitation by URL.
    UrlElicitation,
    /// `elicitationId`, which identifies an elicitation by URL when the session is notified that it is complete, and
    /// the error that lists the elicitations by URL which a request requires.
    ElicitationIds,
    /// Tools in `sampling/createMessage`, and several contents in one of its messages.
    SamplingTools,
    /// The skills extension: its capability, and its methods.
    SkillsExtension,
    /// Roots, sampling and log messages are deprecated.
    Deprecations,
}

/// A set of features, stored as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features(u64);

impl Features {
    pub(crate) const fn of(features: &[Feature]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < features.len() {
            // Every set is a constant, so this fails at compile time, never in a running server.
            assert!((features[index] as u32) < u64::BITS, "more features than bits: widen `Features`");
            bits |= 1 << features[index] as u8;
            index += 1;
        }
        Self(bits)
    }

    pub(crate) const fn and(self, more: &[Feature]) -> Self {
        Self(self.0 | Self::of(more).0)
    }

    pub(crate) const fn without(self, less: &[Feature]) -> Self {
        Self(self.0 & !Self::of(less).0)
    }

    pub(crate) const fn has(self, feature: Feature) -> bool {
        self.0 & (1 << feature as u8) != 0
    }
}
