//! Tools that ask the user before they act: a confirmation, and a form with several steps.
//!
//! The same code serves clients that are asked while the call waits (2025-06-18 and 2025-11-25) and clients that retry
//! the call with the answers (2026-07-28). In the latter case the function runs from its start each time, so side
//! effects that must happen only once are wrapped in `ctx.once`.
//!
//! ```text
//! cargo run -p ask
//! cargo run -p ask -- --http 127.0.0.1:8080
//! ```

mod theatre;

// Registers the backend for `--backend redis://…`.
#[cfg(feature = "redis")]
use mcp_redis as _;
use mcp_runtime::{
    Context, Elicit, Fault, Server,
    ask::{Answer, SampleRequest},
    backend::Backend,
    server, tool,
};

use theatre::{Hall, Theatre};

/// Confirmation of an operation.
#[derive(Elicit)]
struct Confirm {
    /// Tick this to go ahead.
    #[elicit(title = "Go ahead", default = false)]
    sure: bool,
}

/// The contact and the number of seats.
#[derive(Elicit)]
struct Party {
    /// The name for the booking.
    #[elicit(title = "Name", length = 1..=40)]
    name: String,
    /// The address to send the tickets to.
    #[elicit(title = "E-mail", format = "email")]
    email: Option<String>,
    #[elicit(title = "Seats", range = 1..=8, default = 2)]
    seats: u32,
}

/// The area and optional extras.
#[derive(Elicit)]
struct Seating {
    area: Area,
    #[elicit(title = "Extras", length = ..=2)]
    extras: Vec<Extra>,
}

#[derive(Elicit, Debug, Clone, Copy, PartialEq)]
enum Area {
    #[elicit(rename = "stalls", title = "Stalls, near the stage")]
    Stalls,
    #[elicit(rename = "balcony", title = "Balcony, with a view")]
    Balcony,
}

impl From<Area> for Hall {
    fn from(area: Area) -> Self {
        match area {
            Area::Stalls => Hall::Stalls,
            Area::Balcony => Hall::Balcony,
        }
    }
}

#[derive(Elicit, Debug, Clone, Copy, PartialEq)]
enum Extra {
    #[elicit(rename = "wheelchair", title = "Room for a wheelchair")]
    Wheelchair,
    #[elicit(rename = "programme", title = "A printed programme")]
    Programme,
}

/// Cancel a booking after the user has confirmed it.
#[tool(destructive)]
async fn cancel_booking(
    ctx: &Context,
    backend: &dyn Backend,
    /// The number of the booking.
    number: u32,
) -> Result<String, Fault> {
    let theatre = Theatre(backend);
    let Some(booking) = theatre.booking(number).await? else {
        return Ok(format!("booking {number} not found"));
    };
    let question = format!("Cancel booking {number}, {} seats for {}?", booking.seats, booking.name);
    match ctx.elicit::<Confirm>("confirm", question).await? {
        Answer::Accept(Confirm { sure: true }) => {
            theatre.cancel(number).await?;
            Ok(format!("booking {number} is cancelled"))
        }
        Answer::Accept(Confirm { sure: false }) | Answer::Decline | Answer::Cancel => {
            Ok(format!("booking {number} was kept"))
        }
    }
}

/// Book seats, asking the user for the details step by step.
#[tool(destructive = false)]
async fn book_seats(
    ctx: &Context,
    backend: &dyn Backend,
    /// The play's title.
    play: String,
) -> Result<String, Fault> {
    let Answer::Accept(party) = ctx.elicit::<Party>("party", format!("Who would like to see {play}?")).await? else {
        return Ok("nothing was booked".to_owned());
    };
    let question = format!("Where would you like to sit, {}?", party.name);
    let Answer::Accept(seating) = ctx.elicit::<Seating>("seating", question).await? else {
        return Ok("nothing was booked".to_owned());
    };
    let (theatre, hall) = (Theatre(backend), Hall::from(seating.area));
    // Hold the seats while the last question is pending, but only once, because this function may run again.
    let hold = async { theatre.hold(&play, hall, party.seats).await.map_err(|error| error.to_string()) };
    let Some(number) = ctx.once("held", hold).await?.map_err(Fault::internal)? else {
        return Ok(format!("not enough seats left for {play}"));
    };
    let price = party.seats * hall.price();
    let question = format!("{} seats for {play} cost {price} francs. Book them?", party.seats);
    let Answer::Accept(Confirm { sure: true }) = ctx.elicit::<Confirm>("confirm", question).await? else {
        theatre.release(number).await?;
        return Ok("nothing was booked".to_owned());
    };
    // Clients that retry the call may send the same answer twice. The seats are sold only while they are held.
    if !theatre.book(number, &party.name).await? {
        return Ok(format!("booking {number} was already completed or released"));
    }
    let extras = if seating.extras.is_empty() { String::new() } else { format!(", with {:?}", seating.extras) };
    let delivery = party.email.map(|email| format!("; the tickets go to {email}")).unwrap_or_default();
    Ok(format!("booking {number}: {} seats in the {:?}{extras}{delivery}", party.seats, seating.area))
}

/// Have the client's model write an invitation to a play.
#[tool(read_only)]
async fn invitation(
    ctx: &Context,
    /// The play's title.
    play: String,
) -> Result<String, Fault> {
    let request =
        SampleRequest::new(format!("Write one sentence that invites a friend to see {play}.")).max_tokens(100);
    Ok(ctx.sample(request).await?.text())
}

#[server]
fn main(server: Server) -> Server {
    server.instructions("Books seats in a small theatre. Every change requires confirmation by the user.")
}

#[cfg(test)]
mod tests;
