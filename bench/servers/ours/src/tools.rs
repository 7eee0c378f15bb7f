use mcp_runtime::{Json, tool};
use work::{Filter, Found, Page};

/// Add two numbers.
#[tool]
fn add(
    /// The first addend.
    a: f64,
    /// The second addend.
    b: f64,
) -> f64 {
    a + b
}

/// Search the catalogue.
#[tool]
fn search(
    /// Words that must appear.
    query: String,
    /// Conditions that articles must meet.
    filter: Filter,
    /// The part of the result to return.
    page: Page,
) -> Json<Found> {
    Json(work::search(&query, &filter, &page))
}

include!(concat!(env!("OUT_DIR"), "/fillers_100.rs"));
