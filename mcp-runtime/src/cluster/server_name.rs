//! The name of the server that a backend belongs to.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::backend::{Backend, BackendError, RecordCondition, respond};

/// The record that exists as long as a process of the server runs, and a little longer.
const KEY: &str = "mcp/1/server";

/// The number of attempts to read a record that other processes delete and create.
const MAX_ATTEMPTS: usize = 4;

/// The name of this server, and those that it had before.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerName {
    pub(crate) name: String,
    /// The names of servers with which this one may share a backend.
    pub(crate) former: Vec<String>,
}

/// The answer of the backend to a claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NameClaim {
    /// The backend belongs to this server.
    Own,
    /// Processes of the server with its former name are running.
    Former,
    /// The backend belongs to a server with this name.
    Other(String),
}

#[derive(Serialize, Deserialize)]
struct NameRecord {
    name: String,
}

impl ServerName {
    /// Returns whether this server may use what a server with this name has stored.
    pub(super) fn accepts(&self, name: &str) -> bool {
        name == self.name || self.former.iter().any(|former| former == name)
    }

    /// Claims the backend for this server, unless processes of another server use it.
    pub(super) async fn claim(&self, backend: &Arc<dyn Backend>, ttl: Duration) -> Result<NameClaim, BackendError> {
        for _ in 0..MAX_ATTEMPTS {
            if let Some(record) = respond(backend.get(KEY)).await? {
                let Ok(NameRecord { name }) = serde_json::from_slice(&record.value) else {
                    return Err(BackendError::Unavailable(format!("the record `{KEY}` is malformed")));
                };
                return Ok(if name == self.name {
                    NameClaim::Own
                } else if self.accepts(&name) {
                    NameClaim::Former
                } else {
                    NameClaim::Other(name)
                });
            }
            if respond(backend.set(KEY, RecordCondition::Absent, self.encode(), ttl)).await?.is_some() {
                return Ok(NameClaim::Own);
            }
        }
        Err(BackendError::Unavailable(format!("the record `{KEY}` changes too often")))
    }

    /// Keeps the record for as long as this process runs.
    pub(super) async fn renew(&self, backend: &Arc<dyn Backend>, ttl: Duration) -> Result<(), BackendError> {
        // The record of a former name expires when the last process with that name has ended.
        if self.former.is_empty() || self.claim(backend, ttl).await? == NameClaim::Own {
            respond(backend.set(KEY, RecordCondition::Always, self.encode(), ttl)).await?;
        }
        Ok(())
    }

    /// Returns the error for a backend that belongs to another server.
    pub(super) fn mismatch(&self, other: &str, ttl: Duration) -> String {
        let name = &self.name;
        format!(
            "the backend belongs to another server: this one is `{name}`, and processes of `{other}` use the same keys, or \
             did so in the last {ttl:?}\n\
             help: give each server a key prefix of its own, such as `Redis::builder(url).prefix(\"{name}:\")`; if the \
             server was renamed, add `.renamed_from(\"{other}\")`"
        )
    }

    fn encode(&self) -> Vec<u8> {
        // Text can always be encoded.
        serde_json::to_vec(&NameRecord { name: self.name.clone() }).unwrap_or_default()
    }
}
