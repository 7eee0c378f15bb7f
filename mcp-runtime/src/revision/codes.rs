use crate::error::Fault;

/// The JSON-RPC error code of every kind of [`Fault`] but [`Fault::Custom`], which carries its own.
///
/// The oldest revision lists all codes. A later revision lists only the codes that it changes and inherits the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorCodes {
    pub(super) parse: i32,
    pub(super) invalid_request: i32,
    pub(super) method_not_found: i32,
    pub(super) invalid_params: i32,
    pub(super) unknown_tool: i32,
    pub(super) unknown_prompt: i32,
    pub(super) resource_not_found: i32,
    pub(super) internal: i32,
    pub(super) overloaded: i32,
    pub(super) unsupported_version: i32,
    pub(super) header_mismatch: i32,
    pub(super) missing_capability: i32,
    pub(super) insufficient_scope: i32,
    pub(super) url_elicitation_required: i32,
}

impl ErrorCodes {
    pub(super) fn of(&self, fault: &Fault) -> i32 {
        match fault {
            Fault::Parse(_) => self.parse,
            Fault::InvalidRequest(_) => self.invalid_request,
            Fault::MethodNotFound(_) => self.method_not_found,
            Fault::InvalidParams(_) => self.invalid_params,
            Fault::UnknownTool(_) => self.unknown_tool,
            Fault::UnknownPrompt(_) => self.unknown_prompt,
            Fault::ResourceNotFound(_) => self.resource_not_found,
            Fault::Internal(_)
            | Fault::InteractionRequired(_)
            | Fault::InvalidAnswer { .. }
            | Fault::AnswerError { .. }
            | Fault::AnswerTimeout { .. } => self.internal,
            Fault::Overloaded(_) => self.overloaded,
            Fault::UnsupportedVersion { .. } => self.unsupported_version,
            Fault::HeaderMismatch(_) => self.header_mismatch,
            Fault::MissingCapability { .. } => self.missing_capability,
            Fault::InsufficientScope { .. } => self.insufficient_scope,
            Fault::UrlElicitationRequired { .. } => self.url_elicitation_required,
            Fault::Custom { code, .. } => *code,
        }
    }
}
