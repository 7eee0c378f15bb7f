use super::{Contract, Encoding};

/// The buffer for the result of a call, and the parameters of its encoding.
#[derive(Debug)]
pub struct Reply<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    pub(crate) encoding: &'a Encoding,
    /// Whether the tool has an output schema.
    pub(crate) structured: bool,
    /// Whether structured results are wrapped in an object for dialects that require one.
    pub(crate) wraps: bool,
    /// The URI of the requested resource; empty for tools and prompts.
    pub(crate) uri: &'a str,
    /// The media type in the annotation of the resource.
    pub(crate) mime_type: Option<&'static str>,
}

impl<'a> Reply<'a> {
    /// Creates the reply of a function with this contract.
    pub(crate) fn new(out: &'a mut Vec<u8>, encoding: &'a Encoding, contract: &Contract, uri: &'a str) -> Self {
        let output = contract.output_schema();
        let (structured, wraps) = (output.is_some(), output.is_some_and(|output| output.wraps));
        Self { out, encoding, structured, wraps, uri, mime_type: contract.mime_type }
    }

    /// Creates a reply without an output schema, URI or media type.
    pub(crate) fn plain(out: &'a mut Vec<u8>, encoding: &'a Encoding) -> Self {
        Self { out, encoding, structured: false, wraps: false, uri: "", mime_type: None }
    }
}
