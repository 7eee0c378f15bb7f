//! The protocol revisions, and the differences between them.
//!
//! A revision is a constant [`Dialect`]: its features, its error codes, and the methods and members that only it has.
//! This module is the only place that compares revisions; all other code asks `has(Feature::…)`.
//!
//! `CONTRIBUTING.md` lists the steps that add a revision.

mod dialect;
pub(crate) mod encode;
mod table;
#[cfg(test)]
mod test_dialect;
mod v2024_11_05;
mod v2025_03_26;
mod v2025_06_18;
mod v2025_11_25;
mod v2026_07_28;

pub(crate) use dialect::{Dialect, Member};
pub(crate) use table::{DEPRECATED_HTTP_SSE, DEPRECATED_LOG_MESSAGES, DEPRECATED_ROOTS, DEPRECATED_SAMPLING, Feature};
pub use table::{Features, Revision};

macro_rules! define_dialects {
    ($($(#[$cfg:meta])? $variant:ident, $module:ident, $name:literal, $summary:literal;)*) => {
        /// Every dialect, in the order of [`Revision::ALL`].
        pub(crate) static DIALECTS: [&Dialect; Revision::ALL.len()] = [$($(#[$cfg])? &$module::DIALECT),*];

        // `dialect_of` relies on the order. When a file is copied, it is easy to forget to change its revision.
        $($(#[$cfg])? const _: () = assert!($module::DIALECT.revision as usize == Revision::$variant as usize);)*

        // The headers of a stateless request over HTTP mirror one message.
        $($(#[$cfg])? const _: () = assert!(
            cfg!(test) || !$module::DIALECT.has(Feature::Batching) || !$module::DIALECT.has(Feature::RequestMeta),
            "decide in `transport/http/request.rs` what the headers of a batch mirror",
        );)*

        impl Revision {
            /// Every supported revision, oldest first.
            pub const ALL: [Self; [$($(#[$cfg])? $name),*].len()] = [$($(#[$cfg])? Self::$variant),*];

            /// The newest supported revision.
            pub const LATEST: Self = Self::ALL[Self::ALL.len() - 1];

            /// Returns the date that identifies the revision in messages, such as `2025-11-25`.
            ///
            /// ```
            /// use mcp_runtime::Revision;
            ///
            /// assert_eq!(Revision::V2025_11_25.as_str(), "2025-11-25");
            /// ```
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($(#[$cfg])? Self::$variant => $name,)*
                }
            }

            /// Returns `true` if the revision has no handshake and no sessions: every request is self-contained.
            ///
            /// In such a revision, clients call `server/discover` instead of `initialize`, and send their version and
            /// capabilities in the `_meta` of every request.
            ///
            /// ```
            /// use mcp_runtime::Revision;
            ///
            /// assert!(Revision::V2026_07_28.is_stateless());
            /// assert!(!Revision::V2025_11_25.is_stateless());
            /// ```
            pub const fn is_stateless(self) -> bool {
                dialect_of(self).has(Feature::RequestMeta)
            }
        }
    };
}

table::revisions!(define_dialects);

/// Returns the dialect of a revision.
pub(crate) const fn dialect_of(revision: Revision) -> &'static Dialect {
    DIALECTS[revision as usize]
}

/// Returns the dialect that a client names in `initialize`.
pub(crate) fn handshake(name: &str) -> Option<&'static Dialect> {
    DIALECTS.into_iter().find(|dialect| dialect.has(Feature::Handshake) && dialect.name() == name)
}

/// Returns the dialect that `initialize` offers to a client whose version the server does not support.
pub(crate) fn newest_handshake() -> &'static Dialect {
    DIALECTS.into_iter().rfind(|dialect| dialect.has(Feature::Handshake)).unwrap_or_else(newest)
}

/// Returns the dialect that a request names in its `_meta`.
pub(crate) fn stateless(name: &str) -> Option<&'static Dialect> {
    DIALECTS.into_iter().find(|dialect| dialect.has(Feature::RequestMeta) && dialect.name() == name)
}

/// Returns whether an error code says in any dialect that the client has made a mistake. The convention of telemetry does not count
/// such requests as failed.
pub(crate) fn is_mistake(code: i32) -> bool {
    DIALECTS.into_iter().any(|dialect| dialect.codes.is_mistake(code))
}

/// Returns the name of a method that a dialect declares.
pub(crate) fn method_name(name: &str) -> Option<&'static str> {
    DIALECTS.into_iter().flat_map(|dialect| dialect.methods).map(|method| method.name).find(|known| *known == name)
}

/// Returns the newest dialect that lacks a feature.
pub(crate) fn newest_without(feature: Feature) -> Option<&'static Dialect> {
    DIALECTS.into_iter().rfind(|dialect| !dialect.has(feature))
}

/// Returns the dialect for clients that have not named one yet.
pub(crate) fn newest() -> &'static Dialect {
    dialect_of(Revision::LATEST)
}
