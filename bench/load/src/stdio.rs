//! Loads a server over its stdin and stdout.

use std::{
    io::{Read, Write},
    ops::Range,
    process::{ChildStdin, ChildStdout},
    time::Instant,
};

use serde_json::Value;

use crate::{
    error::{Failure, Result},
    message::{INITIALIZED, NOTIFICATION, Operation, Request, ResponseChecker, Revision, excerpt},
    sample::{Durations, Meter, Sample, WARM_UP},
    server::Process,
};

/// A client of one server.
pub struct Client {
    stdin: ChildStdin,
    stdout: ChildStdout,
    /// The received bytes. Those before `taken` are processed.
    inbox: Vec<u8>,
    taken: usize,
    /// The position before which the unprocessed bytes contain no newline.
    scanned: usize,
    outbox: Vec<u8>,
}

impl Client {
    /// Connects and performs the handshake.
    pub fn connect(process: &mut Process) -> Result<Self> {
        let (stdin, stdout) = process.pipes()?;
        let mut client = Self { stdin, stdout, inbox: Vec::new(), taken: 0, scanned: 0, outbox: Vec::new() };
        let response = client.ask(&Request::initialize())?;
        if response["result"]["protocolVersion"] != Revision::Session.as_str() {
            return Err(Failure::new(format!("unexpected response to `initialize`: {response}")));
        }
        client.outbox.extend_from_slice(INITIALIZED);
        client.outbox.push(b'\n');
        client.send()?;
        Ok(client)
    }

    /// Sends one request and waits for its response.
    pub fn ask(&mut self, request: &Request) -> Result<Value> {
        request.write(0, &mut self.outbox);
        self.outbox.push(b'\n');
        self.send()?;
        loop {
            if let Some((begin, end)) = self.next_line() {
                return Ok(serde_json::from_slice(&self.inbox[begin..end])?);
            }
            self.read()?;
        }
    }

    /// Sends requests without waiting for their responses.
    pub fn send_all(&mut self, request: &Request, ids: Range<u64>) -> Result<()> {
        for id in ids {
            request.write(id, &mut self.outbox);
            self.outbox.push(b'\n');
        }
        self.send()
    }

    /// Makes calls one at a time.
    pub fn call(&mut self, operation: Operation, times: usize) -> Result<()> {
        self.pipeline(operation, times, 1)
    }

    /// Makes a number of calls, of which some are in flight at a time.
    pub fn pipeline(&mut self, operation: Operation, times: usize, in_flight: usize) -> Result<()> {
        let (request, mut checker) = (Request::new(operation, Revision::Session), ResponseChecker::new(operation));
        let (mut sent, mut received) = (0, 0);
        while received < times {
            while sent < times && sent - received < in_flight {
                self.write(&request, &mut checker);
                sent += 1;
            }
            self.send()?;
            self.read()?;
            received += self.receive(&mut checker, |_| {})?;
        }
        Ok(())
    }

    /// Keeps a number of calls in flight.
    pub fn load(
        &mut self,
        process: &Process,
        operation: Operation,
        in_flight: usize,
        durations: Durations,
    ) -> Result<Sample> {
        self.call(Operation::Echo, WARM_UP)?;
        let mut meter = Meter::new(vec![process], durations)?;
        let (request, mut checker) = (Request::new(operation, Revision::Session), ResponseChecker::new(operation));
        for _ in 0..in_flight {
            self.write(&request, &mut checker);
        }
        loop {
            self.send()?;
            self.read()?;
            let now = Instant::now();
            let responses = self.receive(&mut checker, |sent| meter.record(sent, now))?;
            if meter.is_over(now)? {
                return meter.sample(now);
            }
            for _ in 0..responses {
                self.write(&request, &mut checker);
            }
        }
    }

    fn write(&mut self, request: &Request, checker: &mut ResponseChecker) {
        request.write(checker.send(), &mut self.outbox);
        self.outbox.push(b'\n');
    }

    fn send(&mut self) -> Result<()> {
        self.stdin.write_all(&self.outbox)?;
        self.outbox.clear();
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        self.inbox.drain(..self.taken);
        self.scanned -= self.taken;
        self.taken = 0;
        let begin = self.inbox.len();
        self.inbox.resize(begin + (1 << 16), 0);
        let read = self.stdout.read(&mut self.inbox[begin..])?;
        self.inbox.truncate(begin + read);
        match read {
            0 => Err(Failure::new(format!("the server exited after {}", excerpt(&self.inbox)))),
            _ => Ok(()),
        }
    }

    /// Checks the received responses and returns their number. Ignores notifications.
    fn receive(&mut self, checker: &mut ResponseChecker, mut each: impl FnMut(Instant)) -> Result<usize> {
        let mut responses = 0;
        while let Some((begin, end)) = self.next_line() {
            if self.inbox[begin..end].starts_with(NOTIFICATION) {
                continue;
            }
            each(checker.receive(&self.inbox[begin..end])?);
            responses += 1;
        }
        Ok(responses)
    }

    /// Takes the next line and returns its begin and end.
    fn next_line(&mut self) -> Option<(usize, usize)> {
        let Some(length) = memchr::memchr(b'\n', &self.inbox[self.scanned..]) else {
            self.scanned = self.inbox.len();
            return None;
        };
        let line = (self.taken, self.scanned + length);
        self.taken = line.1 + 1;
        self.scanned = self.taken;
        Some(line)
    }
}
