use mcp_runtime::{Revision, Server, backend::MemoryBackend, testing::TestClient};
use serde_json::{Value, json};

use super::*;

/// The revisions that support elicitation: two ask while the call waits, one in several round trips.
const REVISIONS: [Revision; 3] = [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28];

/// A part of a question, and the answer to it.
type ScriptedAnswer = (&'static str, fn() -> Value);

/// Connects a client that answers each question as scripted, however often it is asked. Booking 1 has three seats.
async fn client(revision: Revision, answers: &[ScriptedAnswer]) -> TestClient {
    let answers = answers.to_vec();
    let backend = MemoryBackend::default();
    let theatre = Theatre(&backend);
    let number = theatre.hold("Faust", Hall::Stalls, 3).await.unwrap().unwrap();
    assert!(theatre.book(number, "Ada").await.unwrap());
    Server::new("ask", "0.1.0").backend(backend).test_client(revision).answering(move |asked| {
        let answer = answers.iter().find(|(question, _)| asked.message().contains(question));
        answer.map_or_else(|| panic!("unexpected question {:?}", asked.message()), |(_, answer)| answer())
    })
}

fn accept(content: Value) -> Value {
    json!({"action": "accept", "content": content})
}

fn party() -> Value {
    accept(json!({"name": "Grace", "email": "grace@example.com", "seats": 2}))
}

fn seating() -> Value {
    // Before 2025-11-25, a multiple choice is encoded as one boolean per option.
    accept(json!({"area": "balcony", "extras": ["programme"], "extras.programme": true}))
}

fn yes() -> Value {
    accept(json!({"sure": true}))
}

fn no() -> Value {
    json!({"action": "decline"})
}

#[tokio::test]
async fn seats_are_booked_step_by_step() {
    for revision in REVISIONS {
        let mut client = client(revision, &[("Who", party), ("Where", seating), ("Book them?", yes)]).await;
        let result = client.call("book_seats", json!({"play": "Faust"})).await.unwrap();
        let booked = "booking 2: 2 seats in the Balcony, with [Programme]; the tickets go to grace@example.com";
        assert_eq!(result.text(), booked, "{revision}");
    }
}

#[tokio::test]
async fn seats_are_held_once_and_released() {
    for revision in REVISIONS {
        let mut client = client(revision, &[("Who", party), ("Where", seating), ("Book them?", no)]).await;
        // There are twelve seats. If any were held twice or not released, they would run out.
        for _ in 0..8 {
            let result = client.call("book_seats", json!({"play": "Faust"})).await.unwrap();
            assert_eq!(result.text(), "nothing was booked", "{revision}");
        }
    }
}

#[tokio::test]
async fn a_booking_is_cancelled_only_after_confirmation() {
    for revision in REVISIONS {
        for (answer, text) in [(yes as fn() -> Value, "booking 1 is cancelled"), (no, "booking 1 was kept")] {
            let mut client = client(revision, &[("Cancel booking 1, 3 seats for Ada (Faust)?", answer)]).await;
            let result = client.call("cancel_booking", json!({"number": 1})).await.unwrap();
            assert_eq!(result.text(), text, "{revision}");
            let result = client.call("cancel_booking", json!({"number": 7})).await.unwrap();
            assert_eq!(result.text(), "booking 7 not found");
        }
    }
}

#[tokio::test]
async fn a_client_without_elicitation_is_rejected() {
    for revision in Revision::ALL {
        let mut client = Server::new("ask", "0.1.0").test_client(revision);
        match client.call("book_seats", json!({"play": "Faust"})).await {
            Ok(result) => assert!(result.is_error() && !revision.is_stateless(), "{revision}: {result:?}"),
            Err(refused) => assert_eq!((refused.code, revision.is_stateless()), (-32021, true), "{refused}"),
        }
    }
}

#[tokio::test]
async fn a_repeated_answer_changes_nothing() {
    let backend = MemoryBackend::default();
    let theatre = Theatre(&backend);
    let sold = theatre.hold("Faust", Hall::Balcony, 8).await.unwrap().unwrap();
    assert!(theatre.book(sold, "Ada").await.unwrap());
    assert!(!theatre.book(sold, "Ada").await.unwrap());
    theatre.release(sold).await.unwrap();
    assert_eq!(theatre.hold("Faust", Hall::Balcony, 8).await.unwrap(), None);

    theatre.cancel(sold).await.unwrap();
    let held = theatre.hold("Faust", Hall::Balcony, 8).await.unwrap().unwrap();
    assert_ne!(held, sold);
    theatre.cancel(held).await.unwrap();
    assert_eq!(theatre.hold("Faust", Hall::Balcony, 8).await.unwrap(), None);
    theatre.release(held).await.unwrap();
    theatre.release(held).await.unwrap();
    assert!(!theatre.book(held, "Ada").await.unwrap());
    assert!(theatre.hold("Faust", Hall::Balcony, 12).await.unwrap().is_some());
}
