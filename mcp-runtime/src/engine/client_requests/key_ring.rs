//! State keys that several processes share, and their rotation.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::state_key::{KEY_ID_LEN, StateKey, base64_key};
use crate::backend::Timestamp;

/// The age at which a key gets a successor.
pub(super) const ROTATION: Duration = Duration::from_secs(24 * 60 * 60);
/// The age at which a key starts to seal, unless it is the first one. By then, every process knows it.
pub(super) const ACTIVATION: Duration = Duration::from_secs(5 * 60);
/// The maximum number of keys, more than two months' worth. Beyond it, the oldest ones are dropped.
const MAX_KEYS: usize = 64;

/// The keys of a service, the newest one first.
///
/// Rings that different processes have changed are united, and a key that one of them still needs is kept. So nothing
/// is lost if two processes create the first key, or if the ring is lost by the backend and put back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeyRing {
    keys: Vec<DatedKey>,
    /// Members that a newer release has added, which are kept.
    #[serde(flatten)]
    other: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DatedKey {
    #[serde(with = "base64_key")]
    key: StateKey,
    created: Timestamp,
    /// Members that a newer release has added, which are kept.
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl KeyRing {
    /// Returns the key that seals, or `None` if the ring is empty.
    pub(super) fn sealing(&self, now: Timestamp) -> Option<&StateKey> {
        let is_active = |dated: &&DatedKey| now.saturating_duration_since(dated.created) >= ACTIVATION;
        self.keys.iter().find(is_active).or(self.keys.last()).map(|dated| &dated.key)
    }

    pub(super) fn find(&self, id: [u8; KEY_ID_LEN]) -> Option<&StateKey> {
        self.keys.iter().map(|dated| &dated.key).find(|key| key.id() == id)
    }

    /// Adds the keys of another ring, and drops those whose states, which live for `ttl`, have all expired.
    pub(super) fn unite(&mut self, other: &Self, now: Timestamp, ttl: Duration) {
        for dated in &other.keys {
            if !self.keys.iter().any(|known| known.key == dated.key) {
                self.keys.push(dated.clone());
            }
        }
        for (name, value) in &other.other {
            self.other.entry(name).or_insert_with(|| value.clone());
        }
        self.keys.sort_by_key(|dated| std::cmp::Reverse((dated.created, dated.key.id())));
        // A key seals until its successor is active in every process.
        let retired = |successor: &DatedKey| {
            now > successor.created.saturating_add(ACTIVATION).saturating_add(ACTIVATION).saturating_add(ttl)
        };
        if let Some(last) = self.keys.iter().position(retired) {
            self.keys.truncate(last + 1);
        }
        self.keys.truncate(MAX_KEYS);
    }

    /// Returns whether the newest key is due to get a successor.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.keys.first().is_none_or(|newest| now.saturating_duration_since(newest.created) >= ROTATION)
    }

    /// Adds a key.
    pub(super) fn add(&mut self, key: StateKey, created: Timestamp) {
        self.keys.insert(0, DatedKey { key, created, other: Map::new() });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::state_key::KEY_LEN, *};

    const TTL: Duration = Duration::from_secs(3600);

    fn key(byte: u8) -> StateKey {
        StateKey::new([byte; KEY_LEN])
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_unix_millis(1_000_000_000).saturating_add(Duration::from_secs(seconds))
    }

    /// Returns a ring with a key for each of these times, numbered from 1.
    fn ring(created: &[u64]) -> KeyRing {
        let mut ring = KeyRing::default();
        (1..).zip(created).for_each(|(number, created)| ring.add(key(number), at(*created)));
        ring
    }

    #[test]
    fn a_key_seals_from_its_activation_until_that_of_its_successor() {
        let (day, activation) = (ROTATION.as_secs(), ACTIVATION.as_secs());
        for (created, now, sealing) in [
            (&[][..], 0, None),
            // The first key is needed at once.
            (&[0], 0, Some(1)),
            (&[0, day], day, Some(1)),
            (&[0, day], day + activation - 1, Some(1)),
            (&[0, day], day + activation, Some(2)),
            // Two processes have created the first key.
            (&[0, 1], 1, Some(1)),
        ] {
            assert_eq!(ring(created).sealing(at(now)), sealing.map(key).as_ref(), "{created:?} {now}");
        }
        assert!(ring(&[]).is_due(at(0)) && !ring(&[0]).is_due(at(day - 1)) && ring(&[0]).is_due(at(day)));
    }

    #[test]
    fn a_key_is_kept_until_its_states_have_expired() {
        let day = ROTATION.as_secs();
        let expiry = day + 2 * ACTIVATION.as_secs() + TTL.as_secs();
        for (now, remain) in [(day, 2), (expiry, 2), (expiry + 1, 1), (expiry + 100 * day, 1)] {
            let mut united = ring(&[0, day]);
            united.unite(&KeyRing::default(), at(now), TTL);
            assert_eq!(united.keys.len(), remain, "{now}");
            assert!(united.find(key(2).id()).is_some());
            assert_eq!(united.find(key(1).id()).is_some(), remain == 2);
        }
    }

    #[test]
    fn rings_are_united_whatever_their_order_and_are_bounded() {
        let (one, other) = (ring(&[0, 7]), {
            let mut other = KeyRing::default();
            other.add(key(9), at(7));
            other.add(key(8), at(3));
            other
        });
        let [mut left, mut right] = [one.clone(), other.clone()];
        left.unite(&other, at(10), TTL);
        right.unite(&one, at(10), TTL);
        assert_eq!(left, right);
        assert_eq!(left.keys.len(), 4);
        left.unite(&ring(&[10; 100]), at(10), TTL);
        assert_eq!(left.keys.len(), MAX_KEYS);
        let encoded = serde_json::to_vec(&right).unwrap();
        assert_eq!(serde_json::from_slice::<KeyRing>(&encoded).unwrap(), right);
        assert!(!format!("{right:?}").contains("CQkJ"), "keys are secret");
    }

    #[test]
    fn what_a_newer_release_has_added_is_kept() {
        let mut newer = serde_json::to_value(ring(&[0])).unwrap();
        newer["more"] = json!([1]);
        newer["keys"][0]["note"] = json!("kept");
        let read: KeyRing = serde_json::from_value(newer.clone()).unwrap();
        let mut united = KeyRing::default();
        united.unite(&read, at(1), TTL);
        assert_eq!(serde_json::to_value(&united).unwrap(), newer);
    }
}
