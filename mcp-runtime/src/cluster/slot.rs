use std::{fmt, num::NonZeroU32};

use serde::{Deserialize, Serialize};

use crate::random;

/// The number of a process among those that share a backend, between 1 and 2^20 - 1. It is random, so the slot of a
/// process that is gone is unlikely to be taken by another one soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Slot(NonZeroU32);

impl Slot {
    const BITS: u32 = 20;
    /// The number of bits of an id below those of its slot.
    const SHIFT: u32 = 32;

    /// Chooses a slot. Returns `None` if the operating system provides no random bytes.
    pub(super) fn random() -> Option<Self> {
        let mut bytes = [0; 4];
        random::fill(&mut bytes).then(|| {
            let number = u32::from_ne_bytes(bytes) >> (u32::BITS - Self::BITS);
            Self(NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN))
        })
    }

    /// Returns an id that no other replica uses: the slot and a number that the replica uses once. It is less than 2^52,
    /// so every client can represent it as a number.
    pub(crate) fn id(self, number: u32) -> u64 {
        u64::from(self.0.get()) << Self::SHIFT | u64::from(number)
    }

    /// Returns the slot of the replica that an [`id`](Self::id) belongs to. Returns `None` for a number that is no such
    /// id.
    pub(crate) fn of_id(id: u64) -> Option<Self> {
        u32::try_from(id >> Self::SHIFT).ok().and_then(Self::new)
    }

    fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).filter(|number| number.get() >> Self::BITS == 0).map(Self)
    }

    /// Returns the key of the record that exists as long as the replica lives. It is also the name of the topic of
    /// messages to the replica.
    pub(super) fn key(self) -> String {
        format!("mcp/1/replica/{self}")
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_contain_their_slot() {
        for number in [1, 2, (1 << 20) - 1] {
            let slot = Slot(NonZeroU32::new(number).unwrap());
            for within in [0, 1, u32::MAX] {
                assert_eq!(Slot::of_id(slot.id(within)), Some(slot));
                assert!(slot.id(within) < 1 << 53);
            }
        }
        for id in [0, 1, u64::from(u32::MAX), 1 << 52, u64::MAX] {
            assert_eq!(Slot::of_id(id), None, "{id}");
        }
    }
}
