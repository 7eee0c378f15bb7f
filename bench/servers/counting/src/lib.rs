//! Allocators that count allocations or bytes. The only crate here with unsafe code, which `GlobalAlloc` requires.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed},
};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Whether bytes are tracked. Otherwise, an allocation only costs one more branch, so that its instructions are hardly
/// more than those of the system's allocator.
static TRACKING: AtomicBool = AtomicBool::new(false);
static GROWTH: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

/// The system's allocator. Counts each allocation and reallocation of a block.
#[derive(Debug)]
pub struct Counting;

// SAFETY: all calls are forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        track(0, layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        track(0, layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        track(layout.size(), size);
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        track(layout.size(), 0);
        unsafe { System.dealloc(block, layout) }
    }
}

/// Tracks that a block changes its size.
fn track(from: usize, to: usize) {
    if TRACKING.load(Relaxed) {
        let change = to as i64 - from as i64;
        let growth = GROWTH.fetch_add(change, Relaxed) + change;
        PEAK.fetch_max(growth, Relaxed);
    }
}

/// Returns the number of allocations of this process so far.
pub fn allocations() -> u64 {
    ALLOCATIONS.load(Relaxed)
}

/// Returns by how many bytes the allocated memory has grown since the first call, and its maximum growth since the
/// previous call, as text.
pub fn memory() -> String {
    TRACKING.store(true, Relaxed);
    let growth = GROWTH.load(Relaxed);
    format!("{growth} {}", PEAK.swap(growth, Relaxed))
}

static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator. Counts the bytes of all blocks that have not been freed.
#[derive(Debug)]
pub struct Metered;

// SAFETY: all calls are forwarded to the system's allocator.
unsafe impl GlobalAlloc for Metered {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Relaxed);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        IN_USE.fetch_add(size, Relaxed);
        IN_USE.fetch_sub(layout.size(), Relaxed);
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(block, layout) }
    }
}

/// Returns the number of bytes in use, if [`Metered`] is the allocator.
pub fn bytes_in_use() -> usize {
    IN_USE.load(Relaxed)
}
