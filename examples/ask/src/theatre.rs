//! An in-memory theatre.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A seating area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hall {
    Stalls,
    Balcony,
}

impl Hall {
    /// Returns the price of a seat.
    pub(crate) fn price(self) -> u32 {
        match self {
            Hall::Stalls => 40,
            Hall::Balcony => 25,
        }
    }
}

/// Sold seats.
#[derive(Debug, Clone)]
pub(crate) struct Booking {
    pub(crate) name: String,
    pub(crate) seats: u32,
}

/// The held and sold seats of all plays.
#[derive(Debug)]
pub(crate) struct Theatre {
    /// The number of seats of each hall.
    seats: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the latest reservation.
    last: u32,
    reservations: HashMap<u32, Reservation>,
}

/// Held or sold seats.
#[derive(Debug)]
struct Reservation {
    play: String,
    hall: Hall,
    seats: u32,
    /// The buyer, if the seats are sold.
    buyer: Option<String>,
}

impl Theatre {
    pub(crate) fn new(seats: u32) -> Self {
        Self { seats, state: Mutex::default() }
    }

    /// Holds seats and returns the reservation number, or `None` if there are not enough seats.
    pub(crate) fn hold(&self, play: &str, hall: Hall, seats: u32) -> Option<u32> {
        let mut state = self.state();
        let is_same_hall = |reservation: &&Reservation| reservation.play == play && reservation.hall == hall;
        let taken: u32 = state.reservations.values().filter(is_same_hall).map(|reservation| reservation.seats).sum();
        if taken + seats > self.seats {
            return None;
        }
        state.last += 1;
        let number = state.last;
        state.reservations.insert(number, Reservation { play: play.to_owned(), hall, seats, buyer: None });
        Some(number)
    }

    /// Releases held seats. Does nothing if they are sold or already released.
    pub(crate) fn release(&self, number: u32) {
        self.state().reservations.retain(|each, reservation| *each != number || reservation.buyer.is_some());
    }

    /// Sells held seats. Returns `false` if they are no longer held.
    pub(crate) fn book(&self, number: u32, name: &str) -> bool {
        let mut state = self.state();
        let Some(held) = state.reservations.get_mut(&number).filter(|reservation| reservation.buyer.is_none()) else {
            return false;
        };
        held.buyer = Some(name.to_owned());
        true
    }

    /// Returns a booking, or `None` if the seats are not sold.
    pub(crate) fn booking(&self, number: u32) -> Option<Booking> {
        let state = self.state();
        let sold = state.reservations.get(&number)?;
        let buyer = sold.buyer.as_ref()?;
        Some(Booking { name: format!("{buyer} ({})", sold.play), seats: sold.seats })
    }

    /// Cancels a booking, which frees its seats.
    pub(crate) fn cancel(&self, number: u32) {
        self.state().reservations.retain(|each, reservation| *each != number || reservation.buyer.is_none());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
