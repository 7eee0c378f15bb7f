//! Layers around calls. A call without layers never runs this code.

mod backend;
mod call;
mod from_fn;
mod layer;
mod outcome;
mod stack;

pub use backend::LayerBackend;
pub(crate) use backend::SharedBackend;
pub use call::Call;
pub use call::CallKind;
pub(crate) use call::{CallInfo, CalledFunction};
pub use from_fn::{LayerFn, from_fn};
pub use layer::{Layer, LayerFuture, Next};
pub use outcome::{CallStatus, Outcome};
pub(crate) use stack::Layers;
