//! Loads a server over HTTP/1.1 with persistent connections.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use serde_json::Value;

use crate::{
    error::{Failure, Result},
    message::{INITIALIZED, Operation, Request, ResponseChecker, Revision, excerpt},
    response::Response,
    sample::{Durations, Meter, Sample, WARM_UP},
    server::Process,
};

/// The maximum time to wait for a response.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The headers of an echo of 2026-07-28, for other clients.
pub const STATELESS_ECHO: [&str; 5] = [
    "Accept: application/json, text/event-stream",
    "Content-Type: application/json",
    "MCP-Protocol-Version: 2026-07-28",
    "Mcp-Method: tools/call",
    "Mcp-Name: echo",
];

/// The state that the requests of one client share.
#[derive(Debug, Clone)]
pub struct Client {
    address: SocketAddr,
    revision: Revision,
    session: Option<String>,
}

impl Client {
    /// Connects, and performs the handshake if the revision has one.
    pub fn connect(address: SocketAddr, revision: Revision) -> Result<Self> {
        Self::connect_on(&mut Connection::open(address)?, revision)
    }

    /// Performs the handshake on an open connection.
    pub fn connect_on(connection: &mut Connection, revision: Revision) -> Result<Self> {
        let mut client = Self { address: connection.address, revision, session: None };
        if revision == Revision::Session {
            let mut body = Vec::new();
            Request::initialize().write(0, &mut body);
            let response = connection.exchange(&client.head(None), &body)?;
            let message: Value = serde_json::from_slice(response.message()?)?;
            if message["result"]["protocolVersion"] != revision.as_str() {
                return Err(Failure::new(format!("unexpected response to `initialize`: {message}")));
            }
            client.session = response.session;
            let response = connection.exchange(&client.head(None), INITIALIZED)?;
            if response.status != 202 {
                return Err(Failure::new(format!("unexpected status for a notification: {}", response.status)));
            }
        }
        Ok(client)
    }

    /// Sends one request and waits for its response.
    pub fn ask(&self, connection: &mut Connection, request: &Request, tool: &str) -> Result<Value> {
        let mut body = Vec::new();
        request.write(0, &mut body);
        let response = connection.exchange(&self.head(Some(("tools/call", Some(tool)))), &body)?;
        Ok(serde_json::from_slice(response.message()?)?)
    }

    /// Makes calls one at a time.
    pub fn call(&self, connection: &mut Connection, operation: Operation, times: usize) -> Result<()> {
        let (request, mut checker) = (Request::new(operation, self.revision), ResponseChecker::new(operation));
        let head = self.head(Some((operation.method(), operation.tool())));
        let mut body = Vec::new();
        for _ in 0..times {
            body.clear();
            request.write(checker.send(), &mut body);
            checker.receive(connection.exchange(&head, &body)?.message()?)?;
        }
        Ok(())
    }

    /// Keeps one call in flight on each of several connections.
    pub fn load(
        &self,
        process: &Process,
        operation: Operation,
        connections: usize,
        durations: Durations,
    ) -> Result<Sample> {
        self.call(&mut Connection::open(self.address)?, Operation::Echo, WARM_UP)?;
        let meter = Meter::new(vec![process], durations)?;
        let callers = (0..connections).map(|_| Ok((self, Connection::open(self.address)?)));
        Self::load_all(callers.collect::<Result<_>>()?, operation, meter)
    }

    /// Keeps one call of a client in flight on each connection.
    pub fn load_all(callers: Vec<(&Self, Connection)>, operation: Operation, mut meter: Meter<'_>) -> Result<Sample> {
        let Some((first, _)) = callers.first() else { return Err(Failure::new("expected a connection")) };
        let (request, mut checker) = (Request::new(operation, first.revision), ResponseChecker::new(operation));
        let (heads, mut connections): (Vec<_>, Vec<_>) = callers
            .into_iter()
            .map(|(client, connection)| (client.head(Some((operation.method(), operation.tool()))), connection))
            .unzip();
        let mut body = Vec::new();
        let mut send = |connection: &mut Connection, head: &str, checker: &mut ResponseChecker| {
            body.clear();
            request.write(checker.send(), &mut body);
            connection.send(head, &body)
        };
        for (connection, head) in connections.iter_mut().zip(&heads) {
            send(connection, head, &mut checker)?;
        }
        let mut end = Instant::now();
        receive_all(&mut connections, |index, connection, response| {
            let sent = checker.receive(response.message()?)?;
            end = Instant::now();
            meter.record(sent, end);
            send(connection, &heads[index], &mut checker)?;
            Ok(!meter.is_over(end)?)
        })?;
        meter.sample(end)
    }

    /// Opens connections, makes one call on each of them at the same time, and returns them when all calls have been
    /// answered.
    pub fn call_on_all(&self, operation: Operation, connections: usize) -> Result<Vec<Connection>> {
        let (request, mut checker) = (Request::new(operation, self.revision), ResponseChecker::new(operation));
        let head = self.head(Some((operation.method(), operation.tool())));
        let mut body = Vec::new();
        let mut opened = Vec::with_capacity(connections);
        for _ in 0..connections {
            let mut connection = Connection::open(self.address)?;
            body.clear();
            request.write(checker.send(), &mut body);
            connection.send(&head, &body)?;
            opened.push(connection);
        }
        for connection in &mut opened {
            checker.receive(connection.receive()?.message()?)?;
        }
        Ok(opened)
    }

    /// Returns the head of a request, up to the value of `Content-Length`.
    pub fn head(&self, method_and_tool: Option<(&str, Option<&str>)>) -> String {
        let mut head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n",
            self.address
        );
        if let Some(session) = &self.session {
            head += &format!("Mcp-Session-Id: {session}\r\n");
        }
        if self.revision == Revision::Stateless || self.session.is_some() {
            head += &format!("MCP-Protocol-Version: {}\r\n", self.revision.as_str());
        }
        if let (Revision::Stateless, Some((method, name))) = (self.revision, method_and_tool) {
            head += &format!("Mcp-Method: {method}\r\n");
            if let Some(name) = name {
                head += &format!("Mcp-Name: {name}\r\n");
            }
        }
        head + "Content-Length: "
    }

    /// Returns the request for the stream of messages that belong to no call.
    pub fn general_stream(&self) -> String {
        format!(
            "GET /mcp HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {}\r\nMCP-Protocol-Version: {}\r\n\r\n",
            self.address,
            self.session.as_deref().unwrap_or_default(),
            self.revision.as_str(),
        )
    }
}

/// Passes each response and the index of its connection to a function, which may send the next request on that
/// connection. Stops when the function returns `false`.
pub fn receive_all(
    connections: &mut [Connection],
    mut handle: impl FnMut(usize, &mut Connection, Response) -> Result<bool>,
) -> Result<()> {
    let epoll = Epoll::new(EpollCreateFlags::empty())?;
    for (index, connection) in connections.iter().enumerate() {
        connection.stream.set_nonblocking(true)?;
        epoll.add(&connection.stream, EpollEvent::new(EpollFlags::EPOLLIN, index as u64))?;
    }
    let mut events = [EpollEvent::empty(); 64];
    loop {
        let ready = epoll.wait(&mut events, EpollTimeout::try_from(TIMEOUT).unwrap_or(EpollTimeout::NONE))?;
        if ready == 0 {
            return Err(Failure::new("the server did not respond in time"));
        }
        for event in &events[..ready] {
            let index = event.data() as usize;
            let connection = &mut connections[index];
            if let Some(response) = connection.poll()?
                && !handle(index, connection, response)?
            {
                return Ok(());
            }
        }
    }
}

/// A connection that carries one request at a time.
pub struct Connection {
    address: SocketAddr,
    stream: TcpStream,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
}

impl Connection {
    pub fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { address, stream, inbox: Vec::new(), outbox: Vec::new() })
    }

    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Sends a request and waits for the response.
    pub fn exchange(&mut self, head: &str, body: &[u8]) -> Result<Response> {
        self.send(head, body)?;
        self.receive()
    }

    fn receive(&mut self) -> Result<Response> {
        loop {
            if let Some(response) = self.poll()? {
                return Ok(response);
            }
        }
    }

    pub fn send(&mut self, head: &str, body: &[u8]) -> Result<()> {
        self.outbox.clear();
        self.outbox.extend_from_slice(head.as_bytes());
        self.outbox.extend_from_slice(body.len().to_string().as_bytes());
        self.outbox.extend_from_slice(b"\r\n\r\n");
        self.outbox.extend_from_slice(body);
        let mut rest = self.outbox.as_slice();
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads once. Returns the response if it is complete.
    fn poll(&mut self) -> Result<Option<Response>> {
        let begin = self.inbox.len();
        self.inbox.resize(begin + (1 << 16), 0);
        let read = match self.stream.read(&mut self.inbox[begin..]) {
            Ok(0) => {
                return Err(Failure::new(format!(
                    "the server closed the connection after {}",
                    excerpt(&self.inbox[..begin])
                )));
            }
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error.into()),
        };
        self.inbox.truncate(begin + read);
        let Some((response, length)) = Response::parse(&self.inbox)? else { return Ok(None) };
        self.inbox.drain(..length);
        Ok(Some(response))
    }
}
