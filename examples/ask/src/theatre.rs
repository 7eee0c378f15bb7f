//! A small theatre, in memory.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A part of the house.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Hall {
    Stalls,
    Balcony,
}

/// Seats that somebody paid for.
#[derive(Debug, Clone)]
pub(crate) struct Booking {
    pub(crate) name: String,
    pub(crate) seats: u32,
}

/// The seats of every play, and who has them.
#[derive(Debug)]
pub(crate) struct Theatre {
    /// The seats of each hall.
    seats: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: HashMap<(String, Hall), u32>,
    bookings: BTreeMap<u32, Booking>,
}

impl Theatre {
    pub(crate) fn new(seats: u32) -> Self {
        Self { seats, state: Mutex::default() }
    }

    /// Keeps seats, and says what they cost; none if there are not enough.
    pub(crate) fn hold(&self, play: &str, hall: Hall, seats: u32) -> Option<u32> {
        let mut state = self.state();
        let taken = state.taken.entry((play.to_owned(), hall)).or_default();
        if *taken + seats > self.seats {
            return None;
        }
        *taken += seats;
        Some(seats * if hall == Hall::Stalls { 40 } else { 25 })
    }

    /// Gives seats back that were kept.
    pub(crate) fn release(&self, play: &str, hall: Hall, seats: u32) {
        if let Some(taken) = self.state().taken.get_mut(&(play.to_owned(), hall)) {
            *taken = taken.saturating_sub(seats);
        }
    }

    /// Sells seats that were kept, and gives the booking's number.
    pub(crate) fn book(&self, play: &str, name: &str, seats: u32) -> u32 {
        let mut state = self.state();
        let number = state.bookings.last_key_value().map_or(1, |(last, _)| last + 1);
        state.bookings.insert(number, Booking { name: format!("{name} ({play})"), seats });
        number
    }

    pub(crate) fn booking(&self, number: u32) -> Option<Booking> {
        self.state().bookings.get(&number).cloned()
    }

    pub(crate) fn cancel(&self, number: u32) {
        self.state().bookings.remove(&number);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
