use std::time::Duration;

use serde_json::{Map, Value};

use crate::{
    jsonrpc::write,
    model::{CacheScope, Implementation},
    revision::{
        Dialect, Feature, Member,
        encode::{comma, member, of_author},
    },
};

/// The encoding of results in one revision.
#[derive(Debug)]
pub(crate) struct Encoding {
    pub(crate) dialect: &'static Dialect,
    /// The members of every result, and of its `_meta`, as JSON; empty if the dialect has none.
    members: Vec<u8>,
    meta_members: Vec<u8>,
    /// Whether all lists depend on the caller, in which case shared caches must not store them.
    pub(crate) is_private: bool,
    /// Whether structured results are checked against the output schema of their tool.
    pub(crate) checks_results: bool,
}

impl Encoding {
    /// Returns the encoding of a dialect, whose results describe the server as `server`.
    pub(crate) fn new(dialect: &'static Dialect, server: &Implementation) -> Self {
        let encode = |members: &[Member]| {
            let mut out = Vec::new();
            for (name, write) in members {
                write(member(&mut out, name), dialect.features(), server);
            }
            out
        };
        let (members, meta_members) = (encode(dialect.result_members), encode(dialect.meta_members));
        Self { dialect, members, meta_members, is_private: false, checks_results: false }
    }

    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.dialect.has(feature)
    }

    /// Writes how long and by whom a result may be cached, if the dialect supports cache hints.
    pub(crate) fn cache_hints(&self, out: &mut Vec<u8>, ttl: Duration, scope: CacheScope) {
        if self.has(Feature::CacheHints) {
            let scope = if scope == CacheScope::Public { "public" } else { "private" };
            out.extend_from_slice(format!(r#","ttlMs":{},"cacheScope":"{scope}""#, ttl.as_millis()).as_bytes());
        }
    }

    /// Returns the scope of a result that is the same for every caller who may see it.
    pub(crate) fn cache_scope(&self) -> CacheScope {
        if self.is_private { CacheScope::Private } else { CacheScope::Public }
    }

    /// Completes a result object: writes the members that the dialect adds, then `_meta` and the closing brace.
    pub(crate) fn end_result(&self, out: &mut Vec<u8>, meta: Option<&Map<String, Value>>) {
        self.end_result_as(out, "complete", meta);
    }

    /// Completes a result object with the given `resultType`. See [`end_result`](Self::end_result).
    pub(crate) fn end_result_as(&self, out: &mut Vec<u8>, result_type: &str, meta: Option<&Map<String, Value>>) {
        let meta = meta.filter(|meta| !meta.is_empty()).map(|meta| {
            move |out: &mut Vec<u8>| {
                for (name, value) in of_author(meta) {
                    write::plain(member(out, name), value);
                }
            }
        });
        self.end_result_with(out, result_type, meta);
    }

    /// Completes a result object with the given `resultType` and what `write_meta` adds to `_meta`.
    pub(crate) fn end_result_with(
        &self,
        out: &mut Vec<u8>,
        result_type: &str,
        write_meta: Option<impl FnOnce(&mut Vec<u8>)>,
    ) {
        if self.has(Feature::ResultType) {
            comma(out);
            out.extend_from_slice(br#""resultType":""#);
            out.extend_from_slice(result_type.as_bytes());
            out.push(b'"');
        }
        if !self.members.is_empty() {
            comma(out);
            out.extend_from_slice(&self.members);
        }
        if write_meta.is_some() || !self.meta_members.is_empty() {
            comma(out);
            out.extend_from_slice(br#""_meta":{"#);
            out.extend_from_slice(&self.meta_members);
            if let Some(write_meta) = write_meta {
                write_meta(out);
            }
            out.push(b'}');
        }
        out.push(b'}');
    }
}
