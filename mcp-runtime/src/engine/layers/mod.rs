//! Layers around calls. A call without layers never runs this code.

#[cfg(feature = "cluster")]
mod backend;
mod call;
mod layer;

#[cfg(feature = "cluster")]
pub use backend::LayerBackend;
#[cfg(feature = "cluster")]
pub(crate) use backend::SharedBackend;
pub use call::{Call, CallKind, CallStatus, Outcome};
pub(crate) use layer::Layers;
pub use layer::{Layer, LayerFn, LayerFuture, Next, from_fn};
