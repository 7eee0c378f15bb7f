//! The bookings of a theatre, in a record that all processes of the server share.

use std::{collections::HashMap, time::Duration};

use mcp_runtime::backend::{Backend, BackendError, Record, RecordCondition};
use serde::{Deserialize, Serialize};

/// The key of the record with the reservations.
const KEY: &str = "theatre/reservations";

/// The time to live of the record.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The number of seats of each hall.
const SEATS: u32 = 12;

/// A seating area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
pub(crate) struct Theatre<'a>(pub(crate) &'a dyn Backend);

#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    /// The number of the latest reservation.
    last: u32,
    reservations: HashMap<u32, Reservation>,
}

/// Held or sold seats.
#[derive(Debug, Serialize, Deserialize)]
struct Reservation {
    play: String,
    hall: Hall,
    seats: u32,
    /// The buyer, if the seats are sold.
    buyer: Option<String>,
}

impl Theatre<'_> {
    /// Holds seats and returns the reservation number, or `None` if there are not enough seats.
    pub(crate) async fn hold(&self, play: &str, hall: Hall, seats: u32) -> Result<Option<u32>, BackendError> {
        let is_same_hall = |reservation: &&Reservation| reservation.play == play && reservation.hall == hall;
        self.change(|state| {
            let taken: u32 =
                state.reservations.values().filter(is_same_hall).map(|reservation| reservation.seats).sum();
            if taken + seats > SEATS {
                return None;
            }
            state.last += 1;
            let number = state.last;
            state.reservations.insert(number, Reservation { play: play.to_owned(), hall, seats, buyer: None });
            Some(number)
        })
        .await
    }

    /// Releases held seats. Does nothing if they are sold or already released.
    pub(crate) async fn release(&self, number: u32) -> Result<(), BackendError> {
        self.change(|state| {
            state.reservations.retain(|each, reservation| *each != number || reservation.buyer.is_some());
        })
        .await
    }

    /// Sells held seats. Returns `false` if they are no longer held.
    pub(crate) async fn book(&self, number: u32, name: &str) -> Result<bool, BackendError> {
        self.change(|state| {
            let held = state.reservations.get_mut(&number).filter(|reservation| reservation.buyer.is_none());
            held.map(|held| held.buyer = Some(name.to_owned())).is_some()
        })
        .await
    }

    /// Returns a booking, or `None` if the seats are not sold.
    pub(crate) async fn booking(&self, number: u32) -> Result<Option<Booking>, BackendError> {
        let state = State::read(self.0.get(KEY).await?.as_ref())?;
        Ok(state.reservations.get(&number).and_then(|sold| {
            let buyer = sold.buyer.as_ref()?;
            Some(Booking { name: format!("{buyer} ({})", sold.play), seats: sold.seats })
        }))
    }

    /// Cancels a booking, which frees its seats.
    pub(crate) async fn cancel(&self, number: u32) -> Result<(), BackendError> {
        self.change(|state| {
            state.reservations.retain(|each, reservation| *each != number || reservation.buyer.is_none());
        })
        .await
    }

    /// Changes the reservations, again from the start if another call or process has changed them meanwhile.
    async fn change<T>(&self, change: impl Fn(&mut State) -> T) -> Result<T, BackendError> {
        loop {
            let record = self.0.get(KEY).await?;
            let mut state = State::read(record.as_ref())?;
            let result = change(&mut state);
            let condition = record.map_or(RecordCondition::Absent, |record| RecordCondition::Version(record.version));
            let value = serde_json::to_vec(&state).map_err(invalid)?;
            if self.0.set(KEY, condition, value, DAY).await?.is_some() {
                return Ok(result);
            }
        }
    }
}

impl State {
    fn read(record: Option<&Record>) -> Result<Self, BackendError> {
        record.map_or_else(|| Ok(Self::default()), |record| serde_json::from_slice(&record.value).map_err(invalid))
    }
}

fn invalid(error: serde_json::Error) -> BackendError {
    BackendError::Unavailable(format!("invalid reservations: {error}"))
}
