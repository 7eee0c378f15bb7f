//! Loads a server over its stdin and stdout.

use std::{
    io::{Read, Write},
    process::{ChildStdin, ChildStdout},
    time::Instant,
};

use serde_json::Value;

use crate::{
    error::{Failure, Result},
    message::{INITIALIZED, Operation, Request, ResponseChecker, Revision, excerpt},
    sample::{Durations, Meter, Sample},
    server::Process,
};

/// A client of one server.
pub struct Client {
    stdin: ChildStdin,
    stdout: ChildStdout,
    /// The received bytes. Those before `taken` are processed.
    inbox: Vec<u8>,
    taken: usize,
    outbox: Vec<u8>,
}

impl Client {
    /// Connects and performs the handshake.
    pub fn connect(process: &mut Process) -> Result<Self> {
        let (stdin, stdout) = process.pipes()?;
        let mut client = Self { stdin, stdout, inbox: Vec::new(), taken: 0, outbox: Vec::new() };
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
            if let Some(line) = next_line(&self.inbox, &mut self.taken) {
                return Ok(serde_json::from_slice(line)?);
            }
            self.read()?;
        }
    }

    /// Makes calls one at a time.
    pub fn call(&mut self, operation: Operation, times: usize) -> Result<()> {
        let (request, mut checker) = (Request::new(operation, Revision::Session), ResponseChecker::new(operation));
        for _ in 0..times {
            self.write(&request, &mut checker);
            self.send()?;
            while self.receive(&mut checker, |_| {})? == 0 {
                self.read()?;
            }
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
        let (request, mut checker) = (Request::new(operation, Revision::Session), ResponseChecker::new(operation));
        for _ in 0..in_flight {
            self.write(&request, &mut checker);
        }
        let mut meter = Meter::new(process, durations);
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

    /// Checks the received responses and returns their number.
    fn receive(&mut self, checker: &mut ResponseChecker, mut each: impl FnMut(Instant)) -> Result<usize> {
        let mut responses = 0;
        while let Some(line) = next_line(&self.inbox, &mut self.taken) {
            each(checker.receive(line)?);
            responses += 1;
        }
        Ok(responses)
    }
}

fn next_line<'a>(inbox: &'a [u8], taken: &mut usize) -> Option<&'a [u8]> {
    let begin = *taken;
    let length = memchr::memchr(b'\n', &inbox[begin..])?;
    *taken = begin + length + 1;
    Some(&inbox[begin..begin + length])
}
