//! Many clients that listen on three replicas, and a change that one of the replicas announces.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use serde_json::json;

use crate::{
    error::{Failure, Result},
    http::{Client, Connection},
    message::{Operation, Request, Revision, excerpt},
    replicas::{
        Bench,
        deployment::{Backend, Deployment},
        figures::Figures,
    },
    sample::WARM_UP,
    table::Unit,
};

const REPLICAS: usize = 3;
/// The resource that changes.
const URI: &str = "bench://resource";
/// The message that each listener receives when the resource has changed.
const UPDATED: &[u8] = b"notifications/resources/updated";
/// The time in which a change must reach the listeners. It is longer than the target, so that a missed target is still
/// measured.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The time between changes, and before the memory is read.
const SETTLE: Duration = Duration::from_secs(1);

/// An open event stream.
struct Listener {
    stream: TcpStream,
    /// The last received bytes, if they may be the beginning of a notification.
    tail: Vec<u8>,
    is_waiting: bool,
}

pub fn measure(bench: &Bench<'_>, figures: &mut Figures, revision: Revision) -> Result<()> {
    let deployment = Deployment::start(bench, Backend::Redis { replicas: REPLICAS })?;
    let mut control = deployment.connect(0)?;
    let client = Client::connect_on(&mut control, Revision::Stateless)?;
    client.call(&mut control, Operation::Echo, WARM_UP)?;
    // The parts are named after the revisions.
    let part = match revision {
        Revision::Stateless => "listeners of 2026-07-28",
        Revision::Session => "listeners of 2025-11-25",
    };

    let resident = || deployment.processes().iter().map(|process| process.resident()).sum::<Result<u64>>();
    let redis = || deployment.redis.as_ref().map_or(Ok(0.0), |redis| redis.memory());
    let (work, memory, used) = (deployment.work()?, resident()?, redis()?);
    let mut listeners = open(&deployment, revision, bench.clients)?;
    thread::sleep(SETTLE);
    let mut subject = figures.of(part, Backend::Redis { replicas: REPLICAS });
    let per_listener = |bytes: f64| bytes / bench.clients as f64;
    subject.add_work(&deployment.work_since(&work)?, "listener to begin", bench.clients);
    subject.add(
        "resident bytes of replicas per listener",
        Unit::Count,
        per_listener(resident()?.saturating_sub(memory) as f64),
    );
    subject.add("bytes in Redis per listener", Unit::Count, per_listener(redis()? - used));

    let change = Request::call("change", Revision::Stateless);
    for _ in 0..bench.changes {
        let work = deployment.work()?;
        let began = Instant::now();
        client.ask(&mut control, &change, "change")?;
        let times = receive_all(&mut listeners, began)?;
        let work = deployment.work_since(&work)?;
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64();
        subject.add("time until half of the listeners know of a change", Unit::Seconds, at(0.5));
        subject.add("time until all listeners know of a change", Unit::Seconds, at(1.0)).at_most(0.5);
        subject.add_work(&work, "listener that is notified", bench.clients);
        thread::sleep(SETTLE);
    }
    subject.add_peaks(&deployment)
}

/// Opens the streams. Each session opens its stream on another replica than the one that opened the session.
fn open(deployment: &Deployment, revision: Revision, count: usize) -> Result<Vec<Listener>> {
    let mut sessions = (0..REPLICAS).map(|number| deployment.connect(number)).collect::<Result<Vec<_>>>()?;
    let filter = json!({ "notifications": { "resourceSubscriptions": [URI] } });
    let listen = Request::of("subscriptions/listen", filter, Revision::Stateless);
    let subscribe = Request::of("resources/subscribe", json!({ "uri": URI }), Revision::Session);
    let mut listeners = Vec::with_capacity(count);
    for number in 0..count {
        let client = Client::connect_on(&mut sessions[number % REPLICAS], revision)?;
        let mut request = Vec::new();
        if revision == Revision::Session {
            subscribe.write(1, &mut request);
            let response = sessions[number % REPLICAS].exchange(&client.head(None), &request)?;
            response.message()?;
            request = client.general_stream().into_bytes();
        } else {
            let mut body = Vec::new();
            listen.write(1, &mut body);
            request.extend_from_slice(client.head(Some(("subscriptions/listen", None))).as_bytes());
            request.extend_from_slice(format!("{}\r\n\r\n", body.len()).as_bytes());
            request.append(&mut body);
        }
        let opened: &[u8] =
            if revision == Revision::Session { b"\r\n\r\n" } else { b"notifications/subscriptions/acknowledged" };
        listeners.push(Listener::open(deployment.connect(number + 1)?, &request, opened)?);
    }
    Ok(listeners)
}

impl Listener {
    /// Sends a request, and waits until the response shows that the server has accepted it.
    fn open(connection: Connection, request: &[u8], opened: &[u8]) -> Result<Self> {
        let mut stream = connection.into_stream();
        stream.write_all(request)?;
        let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
        while memchr::memmem::find(&text, opened).is_none() {
            let read = stream.read(&mut buffer)?;
            text.extend_from_slice(&buffer[..read]);
            if read == 0 || !text.starts_with(b"HTTP/1.1 200 ") {
                return Err(Failure::new(format!("unexpected response to a listener: {}", excerpt(&text))));
            }
        }
        stream.set_nonblocking(true)?;
        Ok(Self { stream, tail: Vec::new(), is_waiting: false })
    }

    /// Reads once. Returns whether the notification has arrived.
    fn poll(&mut self, buffer: &mut [u8]) -> Result<bool> {
        let read = match self.stream.read(buffer) {
            Ok(0) => return Err(Failure::new("a response to a listener ended")),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error.into()),
        };
        self.tail.extend_from_slice(&buffer[..read]);
        let has_arrived = memchr::memmem::find(&self.tail, UPDATED).is_some();
        let kept = if has_arrived { 0 } else { self.tail.len().min(UPDATED.len() - 1) };
        self.tail.drain(..self.tail.len() - kept);
        Ok(has_arrived)
    }
}

/// Waits until all listeners have received a notification, and returns the sorted times since the change began.
fn receive_all(listeners: &mut [Listener], began: Instant) -> Result<Vec<Duration>> {
    let epoll = Epoll::new(EpollCreateFlags::empty())?;
    for (index, listener) in listeners.iter_mut().enumerate() {
        listener.is_waiting = true;
        epoll.add(&listener.stream, EpollEvent::new(EpollFlags::EPOLLIN, index as u64))?;
    }
    let (mut events, mut buffer) = ([EpollEvent::empty(); 256], vec![0; 1 << 16]);
    let mut times = Vec::with_capacity(listeners.len());
    while times.len() < listeners.len() {
        let left = TIMEOUT.saturating_sub(began.elapsed());
        let ready = epoll.wait(&mut events, EpollTimeout::try_from(left).unwrap_or(EpollTimeout::NONE))?;
        if ready == 0 {
            let missing = listeners.len() - times.len();
            return Err(Failure::new(format!("{missing} listeners did not hear of a change within {TIMEOUT:?}")));
        }
        for event in &events[..ready] {
            let listener = &mut listeners[event.data() as usize];
            if listener.poll(&mut buffer)? && listener.is_waiting {
                listener.is_waiting = false;
                times.push(began.elapsed());
            }
        }
    }
    Ok(times)
}
