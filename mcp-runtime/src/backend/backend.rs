//! The trait of the stores that the processes of one service share.

use super::{logs::Logs, records::Records, topics::Topics};

/// State shared by the processes of one service: [`Records`], [`Logs`] and [`Topics`]. Implemented by every type that
/// implements the three.
///
/// A backend knows only bytes. What a session, an event stream or a task is, is decided by the runtime.
///
/// ```
/// use mcp_runtime::{Backend, MemoryBackend};
///
/// fn shared(backend: &dyn Backend) {
///     println!("{backend:?}");
/// }
///
/// shared(&MemoryBackend::default());
/// ```
pub trait Backend: Records + Logs + Topics {}

impl<T: Records + Logs + Topics + ?Sized> Backend for T {}
