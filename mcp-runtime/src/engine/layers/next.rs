use std::{fmt, sync::Arc, vec};

use super::{Call, Layer, Outcome};
use crate::{engine::calls::Guarded, handler::Running};

/// The layers that are still to come, and the function behind them. A clone runs the call once more.
#[derive(Clone)]
pub struct Next(vec::IntoIter<Arc<dyn Layer>>);

impl Next {
    pub(super) fn new(layers: Vec<Arc<dyn Layer>>) -> Self {
        Self(layers.into_iter())
    }

    /// Goes on with the call, and gives what it came to. A panic has become a fault.
    ///
    /// # Cancel safety
    ///
    /// Dropping it cancels the call.
    pub async fn run(mut self, call: Call) -> Outcome {
        let site = Arc::clone(&call.site);
        let name = site.answering.name;
        let guarded = match self.0.next() {
            Some(layer) => Guarded::layer(Box::pin(async move { layer.call(call, self).await.finished }), name),
            None => Guarded::new(Box::pin(call.run()), site.context.clone(), site.forwards_log, name),
        };
        match guarded.await {
            Ok(finished) => Outcome::of(finished, &site),
            Err(panic) => site.answering.panicked(&*panic, &site.id).into(),
        }
    }

    /// The whole of a call, for the engine to drive.
    pub(in crate::engine) fn start(self, call: Call) -> Running {
        Box::pin(async move { self.run(call).await.finished })
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Next({} layers)", self.0.len())
    }
}
