//! The table of protocol revisions, from which everything that lists revisions is derived.

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

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
