//! Layers around calls. A call without layers never runs this code.

#[cfg(feature = "cluster")]
mod backend;
mod call;
mod layer;
mod outcome;

#[cfg(feature = "cluster")]
pub use backend::LayerBackend;
#[cfg(feature = "cluster")]
pub(crate) use backend::SharedBackend;
pub use call::{Call, CallKind};
pub(crate) use layer::Layers;
pub use layer::{Layer, LayerFn, LayerFuture, Next, from_fn};
pub use outcome::{CallStatus, Outcome};
