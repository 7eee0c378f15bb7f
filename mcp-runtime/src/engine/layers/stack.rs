use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use super::{
    call::{Call, LayerPosition},
    layer::{Layer, LayerFuture, Next},
};
use crate::{handler::entry::EntryInfo, registry::Function};

/// A predicate that decides whether a layer applies to the calls of an entry.
type Applies = Arc<dyn Fn(&EntryInfo<'_>) -> bool + Send + Sync>;

/// The layers of a server, outermost first.
#[derive(Clone, Default)]
pub(crate) struct Layers(Vec<LayerEntry>);

#[derive(Clone)]
struct LayerEntry {
    layer: Arc<dyn Layer>,
    /// `None` if the layer applies to every call.
    applies: Option<Applies>,
}

impl Layers {
    pub(crate) fn push(&mut self, layer: impl Layer, applies: Option<Applies>) {
        let position = LayerPosition { index: self.0.len(), is_general: applies.is_none() };
        self.0.push(LayerEntry { layer: Arc::new(Positioned { layer, position }), applies });
    }

    /// Returns the layers that apply to the calls of a function, or `None` if no layer does.
    pub(crate) fn for_function(&self, function: &Function) -> Option<Next> {
        if self.0.is_empty() {
            return None;
        }
        let info = function.info();
        let applying = self.0.iter().filter(|entry| entry.applies_to(&info));
        let layers: Vec<_> = applying.map(|entry| Arc::clone(&entry.layer)).collect();
        (!layers.is_empty()).then(|| Next::new(layers))
    }

    /// Returns the continuation of a call whose future is polled, because layers apply to it, or because the check of
    /// its arguments may take long. Returns `None` if the function can be called directly.
    pub(crate) fn for_call(&self, function: &Function, arguments: &str) -> Option<Next> {
        let is_slow = || function.contract.is_slow_to_check(arguments);
        self.for_function(function).or_else(|| is_slow().then(Next::without_layers))
    }
}

/// A layer that knows its position.
struct Positioned<L> {
    layer: L,
    position: LayerPosition,
}

impl<L: Layer> Layer for Positioned<L> {
    fn call(&self, call: Call, next: Next) -> LayerFuture<'_> {
        self.layer.call(call.at(self.position), next)
    }
}

impl LayerEntry {
    /// Returns whether the layer applies to an entry. If the predicate panics, the layer applies.
    fn applies_to(&self, info: &EntryInfo<'_>) -> bool {
        let Some(applies) = &self.applies else { return true };
        catch_unwind(AssertUnwindSafe(|| applies(info))).unwrap_or_else(|_| {
            tracing::error!(name = info.name, "the function passed to `layer_for` panicked, so the layer is applied");
            true
        })
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Layers({})", self.0.len())
    }
}
