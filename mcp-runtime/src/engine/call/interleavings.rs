//! Calls that end in several ways at once, in all interleavings:
//!
//! ```console
//! $ RUSTFLAGS='--cfg shuttle' cargo test -p mcp-runtime --lib interleavings
//! ```

use std::{future::poll_fn, sync::Arc};

use shuttle::{check_dfs, check_random, future::block_on, thread};
use tokio::runtime::{Builder, Runtime};

use super::in_flight::{Batch, InFlight, Sink};
use crate::{
    counters::{Counted, Counter},
    engine::{
        outbox::Outbox,
        request::{
            operation::{Ending, Operation},
            source::Permit,
        },
    },
    handler::Context,
    jsonrpc::Id,
};

/// The number of interleavings of the scenarios that have too many to try them all.
const RANDOM: usize = 20_000;

/// A table and an outbox, with calls whose functions never end by themselves.
struct Fixture {
    table: InFlight,
    outbox: Arc<Outbox>,
    /// Runs nothing. Tasks only have to be spawned.
    runtime: Runtime,
    permits: Arc<()>,
}

impl Fixture {
    fn new() -> Arc<Self> {
        let runtime = Builder::new_current_thread().build().unwrap();
        Arc::new(Self { table: InFlight::default(), outbox: Outbox::for_test(), runtime, permits: Arc::new(()) })
    }

    /// Starts a call. Returns `None` if its id is in use.
    fn start(&self, id: &'static str, batch: Option<&Arc<Batch>>) -> Option<Context> {
        let context = Context::with_id(key(id));
        let permit: Permit = Box::new(Arc::clone(&self.permits));
        let sink = Sink {
            outbox: Arc::clone(&self.outbox),
            batch: batch.cloned(),
            _permit: Some(permit),
            operation: Operation::none(),
            _count: Counted::new(Counter::ActiveCalls),
        };
        let spawn = || self.runtime.spawn(std::future::pending::<()>()).abort_handle();
        self.table.start(&context, sink, spawn).is_ok().then_some(context)
    }

    fn finish(&self, call: &Context, response: &str) {
        self.table.finish(call, response.as_bytes().to_vec(), &Ending::Complete);
    }

    /// Takes output until no call is in flight, as a transport does.
    fn drain(&self) -> String {
        let mut output = Vec::new();
        while self.outbox.call_count() > 0 {
            self.outbox.drain(&mut output);
            thread::yield_now();
        }
        self.outbox.drain(&mut output);
        String::from_utf8(output).unwrap()
    }

    fn check_empty(&self) {
        assert_eq!((self.table.count(), self.outbox.call_count()), (0, 0));
        assert!(self.outbox.is_empty());
        assert_eq!(Arc::strong_count(&self.permits), 1, "a permit is left");
    }
}

fn key(id: &str) -> Id {
    Id::from_json(id).unwrap()
}

fn spawn<T: Send + 'static>(
    fixture: &Arc<Fixture>,
    run: impl FnOnce(&Fixture) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let fixture = Arc::clone(fixture);
    thread::spawn(move || run(&fixture))
}

#[test]
fn a_call_that_ends_while_it_is_cancelled_has_a_response_or_none() {
    check_dfs(
        || {
            let fixture = Fixture::new();
            let call = fixture.start("1", None).unwrap();
            let finishing = spawn(&fixture, move |it| it.finish(&call, "response"));
            let is_cancelled = fixture.table.cancel(&key("1"));
            finishing.join().unwrap();
            assert_eq!(fixture.drain(), if is_cancelled { "" } else { "response\n" });
            fixture.check_empty();
        },
        None,
    );
}

#[test]
fn the_end_of_a_call_is_not_taken_for_that_of_a_later_one_with_its_id() {
    check_random(
        || {
            let fixture = Fixture::new();
            let first = fixture.start("1", None).unwrap();
            let finishing = spawn(&fixture, move |it| it.finish(&first, "first"));
            let is_cancelled = fixture.table.cancel(&key("1"));
            let second = fixture.start("1", None).expect("the first call has left the table");
            let cancelling = spawn(&fixture, |it| it.table.cancel_all());
            fixture.finish(&second, "second");
            finishing.join().unwrap();
            cancelling.join().unwrap();
            let output = fixture.drain();
            assert_eq!(output.matches("first").count(), usize::from(!is_cancelled), "{output}");
            assert!(output.matches("second").count() <= 1, "{output}");
            fixture.check_empty();
        },
        RANDOM,
    );
}

#[test]
fn a_call_that_starts_while_all_are_cancelled_is_cancelled_or_has_a_response() {
    check_dfs(
        || {
            let fixture = Fixture::new();
            fixture.start("1", None).unwrap();
            let cancelling = spawn(&fixture, |it| it.table.cancel_all());
            let second = fixture.start("2", None).unwrap();
            cancelling.join().unwrap();
            let is_in_flight = fixture.table.has(&key("2"));
            assert_eq!(fixture.table.count(), usize::from(is_in_flight));
            fixture.finish(&second, "second");
            assert_eq!(fixture.drain(), if is_in_flight { "second\n" } else { "" });
            fixture.check_empty();
        },
        None,
    );
}

#[test]
fn one_of_two_calls_with_the_same_id_is_refused() {
    check_dfs(
        || {
            let fixture = Fixture::new();
            let other = spawn(&fixture, |it| it.start("1", None));
            let started = [fixture.start("1", None), other.join().unwrap()];
            let calls: Vec<_> = started.into_iter().flatten().collect();
            assert_eq!(calls.len(), 1);
            fixture.finish(&calls[0], "response");
            assert_eq!(fixture.drain(), "response\n");
            fixture.check_empty();
        },
        None,
    );
}

#[test]
fn a_batch_has_one_response_however_its_calls_end() {
    check_random(
        || {
            let fixture = Fixture::new();
            let batch = Arc::new(Batch::new());
            let first = fixture.start("1", Some(&batch)).unwrap();
            let second = fixture.start("2", Some(&batch)).unwrap();
            let finishing = spawn(&fixture, move |it| it.finish(&first, "1"));
            let other = spawn(&fixture, move |it| it.finish(&second, "2"));
            let cancelling = spawn(&fixture, |it| it.table.cancel(&key("2")));
            let mut output = Vec::new();
            batch.close(None, &mut output);
            finishing.join().unwrap();
            other.join().unwrap();
            let is_cancelled = cancelling.join().unwrap();
            let output = String::from_utf8(output).unwrap() + &fixture.drain();
            let expected: &[&str] = if is_cancelled { &["[1]\n"] } else { &["[1,2]\n", "[2,1]\n"] };
            assert!(expected.contains(&output.as_str()), "{output:?}");
            fixture.check_empty();
        },
        RANDOM,
    );
}

#[test]
fn a_transport_that_waits_is_woken_by_the_end_of_a_call() {
    check_random(
        || {
            let fixture = Fixture::new();
            let first = fixture.start("1", None).unwrap();
            let second = fixture.start("2", None).unwrap();
            let one = spawn(&fixture, move |it| it.finish(&first, "first"));
            let other = spawn(&fixture, move |it| it.finish(&second, "second"));
            let mut output = Vec::new();
            while output.iter().filter(|byte| **byte == b'\n').count() < 2 {
                // A wake-up that is lost is a deadlock, which shuttle reports.
                block_on(poll_fn(|cx| fixture.outbox.poll_output(cx)));
                let mut lines = Vec::new();
                assert!(fixture.outbox.drain(&mut lines));
                output.append(&mut lines);
            }
            one.join().unwrap();
            other.join().unwrap();
            fixture.check_empty();
        },
        RANDOM,
    );
}

#[test]
fn a_message_that_found_no_room_is_accepted_after_the_transport_has_drained() {
    check_random(
        || {
            let fixture = Fixture::new();
            let large = vec![b'x'; 1 << 20];
            assert!(fixture.outbox.offer(&large).is_ok());
            let offering = spawn(&fixture, |it| {
                while let Err(room) = it.outbox.offer(b"small") {
                    block_on(room);
                }
            });
            let mut output = Vec::new();
            while !output.ends_with(b"small\n") {
                block_on(poll_fn(|cx| fixture.outbox.poll_output(cx)));
                fixture.outbox.drain(&mut output);
            }
            offering.join().unwrap();
            fixture.check_empty();
        },
        2_000,
    );
}
