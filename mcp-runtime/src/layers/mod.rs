//! Middleware for calls of tools, resources and prompts, and for completions of their arguments.
//!
//! A [`Layer`] wraps calls as an HTTP middleware wraps requests. [`Server::layer`](crate::Server::layer) adds a layer
//! to all calls, and [`Server::layer_for`](crate::Server::layer_for) to the calls of some functions. The first layer
//! added is the outermost: it receives the call first and its outcome last.
//!
//! The following layers are available, and [`from_fn`] creates one from an async function:
//!
//! - [`LogCalls`] logs calls.
//! - [`MaskErrors`] hides error messages from clients and logs them instead.
//! - `RateLimit` rejects calls that exceed a rate. It requires the feature `rate-limit`.
//! - `CacheReadOnly` caches the results of read-only tools. It requires the feature `cache`.
//!
//! ```
//! use mcp_runtime::{
//!     Revision, Server,
//!     layers::{Call, LogCalls, MaskErrors, Next, from_fn},
//!     tool,
//! };
//!
//! /// Read the diary.
//! #[tool(read_only)]
//! fn diary() -> Result<String, std::io::Error> {
//!     std::fs::read_to_string("/home/ada/diary.txt")
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let server = Server::empty("diary", "1.0.0")
//!     .with::<diary>()
//!     .layer(LogCalls::new())
//!     .layer(MaskErrors::new())
//!     .layer(from_fn(|call: Call, next: Next| async move { next.run(call).await }));
//! let answer = server.test_client(Revision::V2025_11_25).call("diary", ()).await.unwrap();
//! assert!(answer.text().starts_with("`diary` failed"));
//! # });
//! ```
//!
//! A layer is part of the call: it counts towards the call's timeout, and is dropped when the call is cancelled. Lists
//! and subscriptions are not calls. The log events of a layer are never forwarded to the client, even with
//! `Server::forward_log`.

#[cfg(feature = "cache")]
mod cache;
mod log_calls;
mod mask_errors;
#[cfg(feature = "rate-limit")]
mod rate_limit;

#[cfg(feature = "cache")]
pub use cache::CacheReadOnly;
pub use log_calls::LogCalls;
pub use mask_errors::MaskErrors;
#[cfg(feature = "rate-limit")]
pub use rate_limit::RateLimit;

#[cfg(feature = "cluster")]
pub use crate::engine::layers::LayerBackend;
pub use crate::{
    engine::Rate,
    engine::layers::{Call, CallKind, CallStatus, Layer, LayerFn, LayerFuture, Next, Outcome, from_fn},
    handler::entry::Hints,
};
