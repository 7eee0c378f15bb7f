//! Reuse of the memory of large messages.

use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::mutex::Mutex;

/// The minimum capacity of a buffer that is reused. An allocator reuses smaller buffers itself, while it usually
/// returns larger buffers to the operating system, so that a message of 1 MiB costs hundreds of page faults for each
/// copy of it.
const MIN_CAPACITY: usize = 64 << 10;
/// The maximum capacity of a buffer that is reused.
const MAX_CAPACITY: usize = 2 << 20;
/// The maximum number of unused buffers.
const MAX_SPARE: usize = 4;
/// The number of consecutive small messages in large buffers after which the unused buffers are released.
const SMALL_MESSAGES: u8 = 16;

/// The buffers of large request bodies and responses that are not in use: at most [`MAX_SPARE`] of [`MAX_CAPACITY`]
/// bytes. Others are released.
#[derive(Debug, Default)]
pub(super) struct SpareBuffers {
    spare: Mutex<Spare>,
    /// The number of unused buffers, so that small messages need not lock if there are none.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Spare {
    buffers: Vec<Vec<u8>>,
    small_messages: u8,
}

/// A buffer that is reused when it is dropped.
#[derive(Debug)]
pub(super) struct ReusedBuffer {
    buffer: Vec<u8>,
    spare: Arc<SpareBuffers>,
}

impl SpareBuffers {
    /// Returns an unused buffer, or `None` if there is none because the latest messages were small.
    pub(super) fn take(&self) -> Option<Vec<u8>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.update(|spare| spare.buffers.pop())
    }

    /// Makes a buffer available to other messages, with its content.
    pub(super) fn put(&self, mut buffer: Vec<u8>) {
        if !(MIN_CAPACITY..=MAX_CAPACITY).contains(&buffer.capacity()) {
            return;
        }
        self.update(|spare| {
            let is_small = buffer.len() < MIN_CAPACITY;
            spare.small_messages = if is_small { spare.small_messages.saturating_add(1) } else { 0 };
            if spare.small_messages >= SMALL_MESSAGES {
                spare.buffers.clear();
            } else if spare.buffers.len() < MAX_SPARE {
                buffer.clear();
                spare.buffers.push(buffer);
            }
        });
    }

    fn update<T>(&self, update: impl FnOnce(&mut Spare) -> T) -> T {
        let mut spare = self.spare.lock();
        let result = update(&mut spare);
        self.count.store(spare.buffers.len(), Ordering::Relaxed);
        result
    }
}

impl ReusedBuffer {
    pub(super) fn new(buffer: Vec<u8>, spare: &Arc<SpareBuffers>) -> Self {
        Self { buffer, spare: Arc::clone(spare) }
    }
}

impl Deref for ReusedBuffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.buffer
    }
}

impl DerefMut for ReusedBuffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }
}

impl Drop for ReusedBuffer {
    fn drop(&mut self) {
        self.spare.put(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_buffers_are_reused_until_messages_are_small_again() {
        let spare = Arc::new(SpareBuffers::default());
        let put = |length: usize, capacity: usize| {
            let mut buffer = ReusedBuffer::new(Vec::with_capacity(capacity), &spare);
            buffer.resize(length, b'x');
        };
        put(10, 10);
        put(10, MIN_CAPACITY - 1);
        put(MAX_CAPACITY + 1, MAX_CAPACITY + 1);
        assert_eq!(spare.take(), None);
        for _ in 0..2 * MAX_SPARE {
            put(MIN_CAPACITY, MAX_CAPACITY);
        }
        for _ in 0..MAX_SPARE {
            let buffer = spare.take().expect("large buffers are reused");
            assert_eq!((buffer.len(), buffer.capacity()), (0, MAX_CAPACITY));
        }
        assert_eq!(spare.take(), None);

        put(MIN_CAPACITY, MAX_CAPACITY);
        for _ in 1..SMALL_MESSAGES {
            let buffer = spare.take().expect("few messages were small");
            spare.put(buffer);
        }
        let last = spare.take().expect("few messages were small");
        put(MIN_CAPACITY, MAX_CAPACITY);
        spare.put(last);
        assert!(spare.take().is_some(), "a large message starts the count again");
        for _ in 0..SMALL_MESSAGES {
            put(1, MIN_CAPACITY);
        }
        assert_eq!(spare.take(), None);
    }
}
