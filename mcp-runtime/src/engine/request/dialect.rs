use super::{
    params::Params,
    source::{MirroredFields, RequestSource},
};
use crate::{
    error::Fault,
    model::Level,
    revision::{self, Dialect},
};

/// The dialect of a request, and the options that the request itself sets.
#[derive(Debug)]
pub(crate) struct RequestDialect {
    pub(crate) dialect: &'static Dialect,
    /// The log level of a stateless request.
    pub(crate) level: Option<Level>,
}

impl RequestDialect {
    /// Determines the dialect of a request: the version that the request names, or else the version of its session.
    ///
    /// See [Versioning](https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning).
    ///
    /// # Errors
    ///
    /// Returns a fault if the version is missing or unsupported, or if it contradicts the one that the transport names.
    pub(crate) fn determine(
        session: Option<&'static Dialect>,
        source: Option<&dyn RequestSource>,
        method: &str,
        params: &Params<'_>,
    ) -> Result<Self, Fault> {
        if let Some(version) = params.meta.protocol_version {
            if let Some(source) = source {
                source.check_request(&MirroredFields { version, method, subject: params.subject(method) })?;
            }
            let (dialect, level) = params.meta.stateless()?;
            return Ok(Self { dialect, level });
        }
        if let Some(dialect) = session {
            return Ok(Self { dialect, level: None });
        }
        if let Some(source) = source {
            source.check_unversioned()?;
        }
        match method {
            "initialize" | "ping" => Ok(Self { dialect: revision::newest_handshake(), level: None }),
            _ => Err(Fault::invalid_params(
                "`_meta.io.modelcontextprotocol/protocolVersion` is missing, and no session was opened with `initialize`",
            )),
        }
    }
}
