use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Counters of the unread bytes in several outboxes: a total, and optionally a part of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    total: Arc<AtomicUsize>,
    part: Option<Arc<AtomicUsize>>,
}

#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP meters several outboxes together"))]
impl Meter {
    /// Returns a meter that also counts towards `part`.
    pub(crate) fn with_part(&self, part: &Arc<AtomicUsize>) -> Self {
        Self { total: Arc::clone(&self.total), part: Some(Arc::clone(part)) }
    }

    pub(crate) fn total(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, bytes: usize) {
        for counter in self.counters() {
            counter.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn sub(&self, bytes: usize) {
        for counter in self.counters() {
            counter.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn counters(&self) -> impl Iterator<Item = &AtomicUsize> {
        [Some(&*self.total), self.part.as_deref()].into_iter().flatten()
    }
}
