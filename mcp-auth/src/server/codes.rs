//! Authorization requests, and the codes that answer them.

use std::time::Duration;

use mcp_runtime::backend::{BackendError, RecordCondition, RecordVersion};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{audit::Event, grants::end, inner::Inner, login::Tokens, oauth_error::OAuthError, random};
use crate::shares::Peer;

/// The time for which a code is valid.
pub(super) const CODE_LIFETIME: Duration = Duration::from_secs(60);

/// The time for which a code that was exchanged is remembered, so that a second exchange ends its grant.
const USED_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// Why a grant ends whose code was used twice.
const REUSE: &str = "a code was used twice";

/// The beginning of the subject of a machine, which no user has.
pub(super) const MACHINE: &str = "client:";

/// Returns whether a subject of the provider can name a user.
pub(super) fn is_user(subject: &str) -> bool {
    subject.len() <= 255 && !subject.starts_with(MACHINE)
}

/// A request whose client and redirect URI are valid.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AuthorizationRequest {
    pub(super) client: String,
    pub(super) redirect_uri: String,
    pub(super) state: Option<String>,
    pub(super) challenge: String,
    pub(super) scopes: Vec<String>,
    /// The thumbprint of the key to which the client has bound the code (`dpop_jkt`).
    #[serde(default)]
    pub(super) key: Option<String>,
}

/// The grant that a code stands for.
#[derive(Serialize, Deserialize)]
pub(super) struct Code {
    pub(super) request: AuthorizationRequest,
    pub(super) subject: String,
    /// The claims of the user at the provider.
    pub(super) claims: Map<String, Value>,
    pub(super) tokens: Tokens,
    /// Seconds since the Unix epoch.
    pub(super) expires: f64,
}

impl Code {
    /// Returns the time at which the code was issued, in seconds since the Unix epoch.
    pub(super) fn issued(&self) -> f64 {
        self.expires - CODE_LIFETIME.as_secs_f64()
    }
}

#[derive(Serialize, Deserialize)]
enum StoredCode {
    Valid(Box<Code>),
    Used {
        /// The grant for which it was exchanged, and its user.
        grant: String,
        subject: String,
        request: Box<AuthorizationRequest>,
    },
}

/// Stores a code.
pub(super) async fn insert(server: &Inner, code: &str, issued: Code) -> Result<(), BackendError> {
    let stored = StoredCode::Valid(Box::new(issued));
    server.store.set("code", &random::hash(code), RecordCondition::Absent, &stored, CODE_LIFETIME).await.map(|_| ())
}

/// A code that was not exchanged when it was read.
pub(super) struct ValidCode {
    pub(super) code: Code,
    pub(super) key: String,
    pub(super) version: RecordVersion,
}

/// Finds a code. `is_valid` decides whether the client may have it.
///
/// # Errors
///
/// Returns an error if the code is unknown, has expired, is not for this client, or was used before. In the last case,
/// its grant ends, since either of the two may be an attacker. Ending it takes the verifier.
///
/// See [RFC 6749, 4.1.2](https://www.rfc-editor.org/rfc/rfc6749#section-4.1.2).
pub(super) async fn find(
    server: &Inner,
    code: &str,
    peer: Peer,
    is_valid: impl FnOnce(&AuthorizationRequest) -> Result<(), OAuthError>,
) -> Result<ValidCode, OAuthError> {
    let key = random::hash(code);
    let Some((stored, version)) = server.store.get::<StoredCode>("code", &key).await? else { return Err(invalid()) };
    let code = match stored {
        StoredCode::Valid(code) if code.expires <= server.clock.unix() => return Err(invalid()),
        StoredCode::Valid(code) => *code,
        StoredCode::Used { grant, subject, request } => {
            is_valid(&request)?;
            reuse(server, &request, &subject, &grant, peer).await?;
            return Err(invalid());
        }
    };
    is_valid(&code.request)?;
    Ok(ValidCode { code, key, version })
}

/// Marks a code as used for a grant. The grant must exist already, so that a concurrent use of the code can end it.
///
/// # Errors
///
/// Returns an error if the code was used meanwhile. Both grants then end.
pub(super) async fn mark_used(
    server: &Inner,
    key: &str,
    version: RecordVersion,
    grant: &str,
    subject: &str,
    request: AuthorizationRequest,
    peer: Peer,
) -> Result<(), OAuthError> {
    let (grant_id, subject_id, shared) = (grant.to_owned(), subject.to_owned(), Box::new(request.clone()));
    let used = StoredCode::Used { grant: grant_id, subject: subject_id, request: shared };
    let condition = RecordCondition::Version(version);
    if server.store.set("code", key, condition, &used, USED_LIFETIME).await? {
        return Ok(());
    }
    reuse(server, &request, subject, grant, peer).await?;
    if let Some((StoredCode::Used { grant: other, .. }, _)) = server.store.get::<StoredCode>("code", key).await? {
        end(server, &other, peer, REUSE).await?;
    }
    Err(invalid())
}

/// Ends the grant of a code that was used twice.
async fn reuse(
    server: &Inner,
    request: &AuthorizationRequest,
    subject: &str,
    grant: &str,
    peer: Peer,
) -> Result<(), BackendError> {
    let event = Event::new("reuse", peer).principal(&server.options.issuer, subject);
    event.client(request.client.as_str()).reason(REUSE).record();
    end(server, grant, peer, REUSE).await
}

fn invalid() -> OAuthError {
    OAuthError::new("invalid_grant", "the code is unknown, was used before or has expired")
}
