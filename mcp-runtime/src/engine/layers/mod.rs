//! Layers around calls. A call without layers never runs this code.

mod call;
mod layer;
mod outcome;

pub use call::{Call, CallKind};
pub(crate) use call::{CallInfo, CalledFunction};
pub use layer::{Layer, LayerBackend, LayerFn, LayerFuture, Next, from_fn};
pub(crate) use layer::{Layers, SharedBackend};
pub use outcome::{CallStatus, Outcome};
