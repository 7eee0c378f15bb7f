//! Dynamic registration of clients.
//!
//! See [RFC 7591](https://www.rfc-editor.org/rfc/rfc7591).

use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv6Addr},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Response, StatusCode};
use mcp_runtime::{BackendError, RecordCondition};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    client::{Client, ClientSource},
    client_metadata::{self, MAX_NAME, list, wants_refresh_tokens},
    clients::Clients,
    oauth_error::OAuthError,
    random, reply,
    store::Store,
};
use crate::{clock::Clock, json::parse_object};

/// The time over which registrations are counted: that after which an unused one expires.
const WINDOW: Duration = Duration::from_secs(60 * 60);

/// The maximum number of registrations in that time, of all senders and of one address.
const MAX_REGISTRATIONS: usize = 1000;
const MAX_REGISTRATIONS_OF_ADDRESS: usize = 20;

/// The time over which registrations are counted together in the store.
const GROUP: Duration = Duration::from_secs(60);

/// The number of attempts if other processes register clients at the same time.
const ATTEMPTS: usize = 5;

/// The registrations of the last hour in this process. It refuses floods before they reach the store.
pub(super) struct RegistrationLimit {
    recent: Mutex<VecDeque<(Instant, Option<IpAddr>)>>,
    clock: Clock,
}

impl RegistrationLimit {
    pub(super) fn new(clock: Clock) -> Self {
        Self { recent: Mutex::default(), clock }
    }

    /// Counts a registration, unless there are too many.
    fn admit(&self, sender: Option<IpAddr>) -> bool {
        let (now, sender) = (self.clock.monotonic(), sender.map(network));
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        while recent.front().is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW) {
            recent.pop_front();
        }
        let of_sender = recent.iter().filter(|(_, other)| *other == sender).count();
        let is_admitted = recent.len() < MAX_REGISTRATIONS && of_sender < MAX_REGISTRATIONS_OF_ADDRESS;
        if is_admitted {
            recent.push_back((now, sender));
        }
        is_admitted
    }
}

/// Counts a registration in the store, for all processes that share it. Returns `false` if there are too many.
async fn admit_in_store(store: &Store, clock: &Clock, sender: Option<IpAddr>) -> Result<bool, BackendError> {
    let of_sender = random::hash(&sender.map(network).map_or_else(String::new, |network| network.to_string()));
    Ok(count(store, clock, &of_sender, MAX_REGISTRATIONS_OF_ADDRESS).await?
        && count(store, clock, "all", MAX_REGISTRATIONS).await?)
}

/// Adds one to the count of a record, unless there are too many within the last hour.
async fn count(store: &Store, clock: &Clock, id: &str, max: usize) -> Result<bool, BackendError> {
    for _ in 0..ATTEMPTS {
        let found = store.get::<Vec<Registrations>>("registrations", id).await?;
        let (mut recent, condition) = match found {
            Some((recent, version)) => (recent, RecordCondition::Version(version)),
            None => (Vec::new(), RecordCondition::Absent),
        };
        let now = clock.unix();
        recent.retain(|registrations| now - registrations.last < WINDOW.as_secs_f64());
        if recent.iter().map(|registrations| registrations.count).sum::<usize>() >= max {
            return Ok(false);
        }
        match recent.last_mut() {
            Some(registrations) if now - registrations.first < GROUP.as_secs_f64() => {
                registrations.last = now;
                registrations.count += 1;
            }
            _ => recent.push(Registrations { first: now, last: now, count: 1 }),
        }
        if store.set("registrations", id, condition, &recent, WINDOW).await? {
            return Ok(true);
        }
    }
    Err(BackendError::Unavailable("the record of registrations keeps changing".to_owned()))
}

/// Registrations that are counted together, so that a record stays small.
#[derive(Serialize, Deserialize)]
struct Registrations {
    /// The times of the first and the last one, in seconds since the Unix epoch.
    first: f64,
    last: f64,
    count: usize,
}

/// Returns the address, or the network of 64 bits that one sender of IPv6 usually has.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address @ IpAddr::V4(_) => address,
    }
}

/// Registers a client.
pub(super) async fn register(
    clients: &Clients,
    limit: &RegistrationLimit,
    body: &[u8],
    sender: Option<IpAddr>,
) -> Result<Response<Bytes>, OAuthError> {
    let invalid = |description: &'static str| OAuthError::new("invalid_client_metadata", description);
    let metadata = parse_object(body).map_err(|_| invalid("expected a JSON object with unique names"))?;
    let (client, secret) = describe(&metadata)?;
    if !limit.admit(sender) || !admit_in_store(&clients.store, &limit.clock, sender).await? {
        let error = OAuthError::new("temporarily_unavailable", "too many clients were registered within an hour");
        return Err(OAuthError { status: StatusCode::TOO_MANY_REQUESTS, ..error });
    }
    clients.register(&client).await?;
    let mut grants = vec!["authorization_code"];
    if client.wants_refresh_tokens {
        grants.push("refresh_token");
    }
    let mut response = json!({
        "client_id": client.id,
        "redirect_uris": client.redirect_uris,
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": metadata.get("token_endpoint_auth_method").cloned().unwrap_or(json!("none")),
    });
    if let Some(name) = client.name {
        response["client_name"] = json!(name);
    }
    if let Some(secret) = secret {
        response["client_secret"] = json!(secret);
        response["client_secret_expires_at"] = json!(0);
    }
    Ok(reply::json(StatusCode::CREATED, &response))
}

/// Returns the client that metadata describe, and its secret. Members that have no effect, such as logos, are ignored.
fn describe(metadata: &Map<String, Value>) -> Result<(Client, Option<String>), OAuthError> {
    let invalid = |description: &'static str| OAuthError::new("invalid_client_metadata", description);
    let redirect_uris = client_metadata::redirect_uris(metadata)?;
    if list(metadata, "response_types").is_some_and(|types| types != ["code"]) {
        return Err(invalid("`response_types` must be [\"code\"]"));
    }
    if list(metadata, "grant_types").is_some_and(|types| !types.contains(&"authorization_code")) {
        return Err(invalid("`grant_types` must contain `authorization_code`"));
    }
    let secret = match metadata.get("token_endpoint_auth_method").map(Value::as_str) {
        None | Some(Some("none")) => None,
        Some(Some("client_secret_basic" | "client_secret_post")) => Some(random::token()?),
        _ => return Err(invalid("the authentication method is not supported")),
    };
    let name = match metadata.get("client_name") {
        None => None,
        Some(Value::String(name)) => Some(name.chars().take(MAX_NAME).collect()),
        Some(_) => return Err(invalid("`client_name` must be a string")),
    };
    let client = Client {
        id: random::token()?,
        name,
        redirect_uris,
        secret_hash: secret.as_deref().map(random::hash),
        wants_refresh_tokens: wants_refresh_tokens(metadata),
        machine_scopes: None,
        source: ClientSource::Registered,
    };
    Ok((client, secret))
}
