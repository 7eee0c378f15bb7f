use super::Encoding;

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
    /// Creates a reply without an output schema, URI or media type.
    pub(crate) fn plain(out: &'a mut Vec<u8>, encoding: &'a Encoding) -> Self {
        Self { out, encoding, structured: false, wraps: false, uri: "", mime_type: None }
    }
}
