//! The table of protocol revisions, from which everything that lists revisions is derived, the features by which they
//! differ, and the warnings about deprecated features.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};

/// Calls a macro with the table, oldest revision first: the variant of [`Revision`], the module that holds its dialect,
/// the date that identifies it in messages, and a summary for the documentation.
macro_rules! revisions {
    ($callback:ident) => {
        $callback! {
            V2024_11_05, v2024_11_05, "2024-11-05", "the first revision";
            V2025_03_26, v2025_03_26, "2025-03-26", "batching, tool annotations, audio";
            V2025_06_18, v2025_06_18, "2025-06-18", "structured results, resource links, titles, elicitation";
            V2025_11_25, v2025_11_25, "2025-11-25", "icons, tasks, elicitation by URL";
            V2026_07_28, v2026_07_28, "2026-07-28", "stateless, without a handshake";
            #[cfg(test)]
            VTest, test_dialect, "9999-12-31", "every way in which a revision can differ";
        }
    };
}

pub(super) use revisions;

macro_rules! define_revision {
    ($($(#[$cfg:meta])? $variant:ident, $module:ident, $name:literal, $summary:literal;)*) => {
        /// A revision of the Model Context Protocol. A later revision is greater than an earlier one.
        ///
        /// Servers support all revisions. Functions that depend on what a revision has ask the context:
        ///
        /// ```
        /// use mcp_runtime::{Context, Revision, tool};
        ///
        /// /// Describe a picture.
        /// #[tool]
        /// fn describe(ctx: &Context) -> &'static str {
        ///     match ctx.revision() {
        ///         revision if revision < Revision::V2025_06_18 => "see notes://pictures",
        ///         _ => "see the linked picture",
        ///     }
        /// }
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Revision {
            $(
                $(#[$cfg])?
                #[doc = concat!("[", $name, "](https://modelcontextprotocol.io/specification/", $name, "): ", $summary, ".")]
                $variant,
            )*
        }
    };
}

revisions!(define_revision);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

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
    /// `resultType` in every result.
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

/// A feature that a revision deprecates, and the warning about its use. The guide lists all of them.
///
/// See [Deprecated features](https://modelcontextprotocol.io/specification/2026-07-28/deprecated).
#[derive(Debug)]
pub(crate) struct Deprecated {
    text: &'static str,
    is_reported: AtomicBool,
}

impl Deprecated {
    const fn new(text: &'static str) -> Self {
        Self { text, is_reported: AtomicBool::new(false) }
    }

    /// Logs that the feature is used, unless the process has logged it.
    pub(crate) fn warn(&self) {
        // The load is cheaper than the swap for threads that log a lot.
        if !self.is_reported.load(Ordering::Relaxed) && !self.is_reported.swap(true, Ordering::Relaxed) {
            tracing::warn!(target: "mcp_runtime::deprecated", "{}", self.text);
        }
    }
}

/// `sampling/createMessage`.
pub(crate) static DEPRECATED_SAMPLING: Deprecated = Deprecated::new(
    "a function uses sampling, which is deprecated since 2026-07-28 (SEP-2577) and may be removed from revisions \
     after 2027-07-28: call the API of a model instead",
);

/// `roots/list`.
pub(crate) static DEPRECATED_ROOTS: Deprecated = Deprecated::new(
    "a function uses roots, which are deprecated since 2026-07-28 (SEP-2577) and may be removed from revisions \
     after 2027-07-28: take directories as arguments or from the configuration instead",
);

/// `notifications/message`.
pub(crate) static DEPRECATED_LOG_MESSAGES: Deprecated = Deprecated::new(
    "a function sends log messages to the client, which are deprecated since 2026-07-28 (SEP-2577) and may be removed \
     from revisions after 2027-07-28: use `tracing` instead",
);

/// The transport of 2024-11-05.
pub(crate) static DEPRECATED_HTTP_SSE: Deprecated = Deprecated::new(
    "a client uses the transport HTTP+SSE, which is deprecated since 2025-03-26 (SEP-2596): \
     configure it with the URL of the streamable HTTP endpoint instead",
);
