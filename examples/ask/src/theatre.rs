//! A small theatre, in memory.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A part of the house.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hall {
    Stalls,
    Balcony,
}

impl Hall {
    /// What a seat costs.
    pub(crate) fn price(self) -> u32 {
        match self {
            Hall::Stalls => 40,
            Hall::Balcony => 25,
        }
    }
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
    /// The last number that was given.
    last: u32,
    taken: HashMap<u32, Taken>,
}

/// Seats that are kept, or sold.
#[derive(Debug)]
struct Taken {
    play: String,
    hall: Hall,
    seats: u32,
    /// Who bought them, if they are sold.
    buyer: Option<String>,
}

impl Theatre {
    pub(crate) fn new(seats: u32) -> Self {
        Self { seats, state: Mutex::default() }
    }

    /// Keeps seats under a number; none if there are not enough.
    pub(crate) fn hold(&self, play: &str, hall: Hall, seats: u32) -> Option<u32> {
        let mut state = self.state();
        let same = |taken: &&Taken| taken.play == play && taken.hall == hall;
        let taken: u32 = state.taken.values().filter(same).map(|taken| taken.seats).sum();
        if taken + seats > self.seats {
            return None;
        }
        state.last += 1;
        let number = state.last;
        state.taken.insert(number, Taken { play: play.to_owned(), hall, seats, buyer: None });
        Some(number)
    }

    /// Gives seats back that are kept; those that are sold by now, or gone, are left as they are.
    pub(crate) fn release(&self, number: u32) {
        self.state().taken.retain(|each, taken| *each != number || taken.buyer.is_some());
    }

    /// Sells seats, and says whether they were still kept.
    pub(crate) fn book(&self, number: u32, name: &str) -> bool {
        let mut state = self.state();
        let kept = state.taken.get_mut(&number).filter(|taken| taken.buyer.is_none());
        kept.map(|taken| taken.buyer = Some(name.to_owned())).is_some()
    }

    pub(crate) fn booking(&self, number: u32) -> Option<Booking> {
        let state = self.state();
        let taken = state.taken.get(&number)?;
        let buyer = taken.buyer.as_ref()?;
        Some(Booking { name: format!("{buyer} ({})", taken.play), seats: taken.seats })
    }

    /// Takes a booking back, so that its seats are free again.
    pub(crate) fn cancel(&self, number: u32) {
        self.state().taken.retain(|each, taken| *each != number || taken.buyer.is_none());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
