//! Layers around calls. A call without layers never runs this code.

mod call;
mod layer;
mod outcome;

pub(crate) use call::SharedBackend;
pub use call::{Call, CallKind, LayerBackend};
pub(crate) use layer::Layers;
pub use layer::{Layer, LayerFn, LayerFuture, Next, from_fn};
pub use outcome::{CallStatus, Outcome};
