use std::{
    any::{Any, TypeId},
    pin::Pin,
};

use super::{PromptOutput, PromptReply, ResourceOutput, ResourceReply, ToolOutput, ToolReply, schema::Violation};
use crate::{
    error::Fault,
    revision::{Dialect, Feature, Features},
};

/// Whether a call gave a result.
pub type Outcome = Result<(), Refusal>;

/// The future of a call.
pub type Running = Pin<Box<dyn Future<Output = Finished> + Send>>;

/// Why a call gave none.
#[derive(Debug)]
pub struct Refusal(Box<Reason>);

#[derive(Debug)]
pub(crate) enum Reason {
    /// The arguments break the contract; a model may mend them.
    Arguments(Vec<Violation>),
    /// A protocol error.
    Fault(Fault),
    /// The function returned an error of its own. Of a tool it is for the model to read, of anything else for the log only.
    Failed {
        why: String,
        /// The type of the error.
        of: TypeId,
    },
}

impl Refusal {
    pub(crate) fn arguments(violations: Vec<Violation>) -> Self {
        Self(Box::new(Reason::Arguments(violations)))
    }

    /// Turns an author's error into a refusal: a [`Fault`] is a protocol error, what any other is depends on who fails.
    pub(crate) fn of_error<E: std::fmt::Display + 'static>(error: E) -> Self {
        match (&error as &dyn Any).downcast_ref::<Fault>() {
            Some(fault) => fault.clone().into(),
            None => Self(Box::new(Reason::Failed { why: format!("{error:#}"), of: TypeId::of::<E>() })),
        }
    }

    pub(crate) fn reason(&self) -> &Reason {
        &self.0
    }

    pub(crate) fn into_reason(self) -> Reason {
        *self.0
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self(Box::new(Reason::Fault(fault)))
    }
}

/// What a call that ran as a future came to: the JSON of its result.
#[derive(Debug)]
pub struct Finished {
    pub(crate) body: Vec<u8>,
    pub(crate) outcome: Outcome,
}

/// What every result of one dialect says beside its own members.
#[derive(Debug)]
pub(crate) struct Encoding {
    pub(crate) dialect: &'static Dialect,
    pub(crate) features: Features,
    /// The members of `_meta` in every result, as JSON; empty if the dialect has none.
    pub(crate) identity: Vec<u8>,
    /// Whether lists differ from caller to caller, so that nobody may keep one for others.
    pub(crate) is_private: bool,
}

impl Encoding {
    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.features.has(feature)
    }

    /// Writes how long, and who, may keep a result, if the dialect tells that.
    pub(crate) fn cache_hints(&self, out: &mut Vec<u8>, ttl: std::time::Duration) {
        if self.has(Feature::CacheHints) {
            let scope = if self.is_private { "private" } else { "public" };
            out.extend_from_slice(format!(r#","ttlMs":{},"cacheScope":"{scope}""#, ttl.as_millis()).as_bytes());
        }
    }

    /// Ends a complete result whose members were written, with its brace: what the dialect adds, and `_meta`.
    pub(crate) fn end_result(&self, out: &mut Vec<u8>, meta: Option<&serde_json::Map<String, serde_json::Value>>) {
        self.end_result_as(out, "complete", meta);
    }

    /// Ends a result of any type.
    pub(crate) fn end_result_as(
        &self,
        out: &mut Vec<u8>,
        result_type: &str,
        meta: Option<&serde_json::Map<String, serde_json::Value>>,
    ) {
        if self.has(Feature::ResultType) {
            comma(out);
            out.extend_from_slice(br#""resultType":"#);
            crate::jsonrpc::write::string(out, result_type);
        }
        for (name, json) in self.dialect.result_members() {
            comma(out);
            crate::jsonrpc::write::string(out, name);
            out.push(b':');
            out.extend_from_slice(json.as_bytes());
        }
        let meta = meta.filter(|meta| !meta.is_empty());
        if meta.is_some() || !self.identity.is_empty() {
            comma(out);
            out.extend_from_slice(br#""_meta":{"#);
            out.extend_from_slice(&self.identity);
            for (key, value) in meta.into_iter().flatten() {
                comma(out);
                crate::jsonrpc::write::string(out, key);
                out.push(b':');
                crate::jsonrpc::write::plain(out, value);
            }
            out.push(b'}');
        }
        out.push(b'}');
    }
}

/// Separates a member or an element from the one before it, if there is one.
pub(crate) fn comma(out: &mut Vec<u8>) {
    if !matches!(out.last(), Some(b'{' | b'[' | b',')) {
        out.push(b',');
    }
}

/// Where the result of a call is written.
#[derive(Debug)]
pub struct Reply<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    pub(crate) encoding: &'a Encoding,
    /// Whether the tool has an output schema.
    pub(crate) structured: bool,
    /// Whether the output schema is no object, so that some dialects want it wrapped.
    pub(crate) wraps: bool,
    /// The URI that is read; empty elsewhere.
    pub(crate) uri: &'a str,
    /// The media type that the resource was annotated with.
    pub(crate) mime_type: Option<&'static str>,
}

impl<'a> Reply<'a> {
    /// A reply that no function writes.
    pub(crate) fn plain(out: &'a mut Vec<u8>, encoding: &'a Encoding) -> Self {
        Self { out, encoding, structured: false, wraps: false, uri: "", mime_type: None }
    }

    /// Writes the result of a tool.
    ///
    /// # Errors
    ///
    /// The fault that the function answered, or one that says that its value could not be serialised.
    pub fn tool<T: ToolOutput>(&mut self, value: T) -> Outcome {
        let mut reply = ToolReply::begin(self);
        value.write(&mut reply)?;
        reply.end();
        Ok(())
    }

    /// Writes the contents of a resource.
    ///
    /// # Errors
    ///
    /// As [`tool`](Self::tool); what does not exist is a fault as well.
    pub fn resource<T: ResourceOutput>(&mut self, value: T) -> Outcome {
        let mut reply = ResourceReply::begin(self);
        value.write(&mut reply)?;
        reply.end();
        Ok(())
    }

    /// Writes the messages of a prompt.
    ///
    /// # Errors
    ///
    /// As [`tool`](Self::tool).
    pub fn prompt<T: PromptOutput>(&mut self, value: T) -> Outcome {
        let mut reply = PromptReply::begin(self);
        value.write(&mut reply)?;
        reply.end();
        Ok(())
    }
}
