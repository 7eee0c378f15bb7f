//! The servers behind the front. What becomes of them is decided by the same machine as over stdio: to it, an HTTP request that a
//! server works on is a call.

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderValue, Method, Request, Response, Uri, header, request::Parts},
};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::Child,
    sync::{broadcast, mpsc, oneshot, watch},
    task::JoinSet,
    time::timeout,
};

use super::{
    super::{
        Generation, Say, Stops,
        build::News,
        front::{self, Effect, Event, Settings, Tone},
        guard::{self, guarded},
        message::{INTERNAL_ERROR, Key, Message, error, notification, result},
        offers::Kind,
        process::{Leash, describe, terminate},
        stdio::Manner,
    },
    Front, VERSION, lock,
};

/// What an HTTP request is to the machine.
const WORK: &str = "work";
/// How long the reason for the end of a server may take to be known.
const REASON: Duration = Duration::from_secs(2);
/// How long everything may take to end, before it is killed.
const LAST: Duration = Duration::from_millis(1500);

/// A server that listens.
#[derive(Debug, Clone)]
pub(super) struct Backend {
    pub(super) generation: Generation,
    /// Its host and port.
    authority: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// What requests know of the servers.
#[derive(Debug)]
pub(super) struct Backends {
    asks: mpsc::UnboundedSender<Ask>,
    /// The numbers of requests.
    requests: AtomicU64,
    current: watch::Sender<Option<Backend>>,
    is_over: watch::Sender<bool>,
    alive: Mutex<HashMap<Generation, Backend>>,
    changes: broadcast::Sender<BTreeSet<Kind>>,
    notices: broadcast::Sender<String>,
}

/// What a request wants of the supervisor.
#[derive(Debug)]
pub(super) enum Ask {
    /// A server to work on it.
    Begin { id: u64, began: oneshot::Sender<Backend>, failed: oneshot::Sender<String> },
    /// Nothing more: it is answered, or nobody waits for it.
    End(u64, Option<Generation>),
}

/// A request that a server works on; it ends with this.
#[derive(Debug)]
pub(super) struct Work {
    id: u64,
    backend: Backend,
    failed: oneshot::Receiver<String>,
    /// Why it has failed.
    reason: Option<String>,
    asks: mpsc::UnboundedSender<Ask>,
}

impl Backends {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Ask>) {
        let (asks, inbox) = mpsc::unbounded_channel();
        let backends = Self {
            asks,
            requests: AtomicU64::new(1),
            current: watch::Sender::new(None),
            is_over: watch::Sender::new(false),
            alive: Mutex::default(),
            changes: broadcast::Sender::new(16),
            notices: broadcast::Sender::new(16),
        };
        (backends, inbox)
    }

    /// Waits for a server, which is started if it has ended.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(super) async fn begin(&self) -> Result<Work, String> {
        let id = self.requests.fetch_add(1, Ordering::Relaxed);
        let ((began, has_begun), (fail, mut failed)) = (oneshot::channel(), oneshot::channel());
        let mut waiting = Waiting(&self.asks, Some(id));
        let _ = self.asks.send(Ask::Begin { id, began, failed: fail });
        let backend = tokio::select! {
            Ok(backend) = has_begun => backend,
            why = &mut failed => return Err(why.unwrap_or_else(|_| "`cargo mcp dev` was stopped".to_owned())),
        };
        waiting.1 = None;
        Ok(Work { id, backend, failed, reason: None, asks: self.asks.clone() })
    }

    pub(super) fn is_current(&self, server: Generation) -> bool {
        self.current.borrow().as_ref().is_some_and(|backend| backend.generation == server)
    }

    pub(super) fn current(&self) -> Option<Backend> {
        self.current.borrow().clone()
    }

    pub(super) fn alive(&self, server: Generation) -> Option<Backend> {
        lock(&self.alive).get(&server).cloned()
    }

    /// Waits for a newer server than one; none when everything ends.
    pub(super) async fn newer_than(&self, server: Generation) -> Option<Backend> {
        let mut current = self.current.subscribe();
        let is_newer = |backend: &Option<Backend>| backend.as_ref().is_some_and(|backend| backend.generation > server);
        tokio::select! {
            newer = current.wait_for(is_newer) => newer.ok()?.clone(),
            () = self.over() => None,
        }
    }

    pub(super) fn changes(&self) -> broadcast::Receiver<BTreeSet<Kind>> {
        self.changes.subscribe()
    }

    pub(super) fn notices(&self) -> broadcast::Receiver<String> {
        self.notices.subscribe()
    }

    /// Waits until everything ends.
    pub(super) fn over(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut is_over = self.is_over.subscribe();
        async move {
            let _ = is_over.wait_for(|is_over| *is_over).await;
        }
    }
}

impl Backend {
    /// A server that listens at a host and port. Connections are not kept: one that the server closes must not cost a request.
    fn new(generation: Generation, authority: String) -> Self {
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
        Self { generation, authority, client }
    }

    /// Sends a request as it is but for where it goes.
    ///
    /// # Errors
    ///
    /// The server is not there, or went away.
    pub(super) async fn send(&self, parts: &Parts, body: Bytes) -> Result<Response<Body>, String> {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let uri = Uri::builder().scheme("http").authority(&*self.authority).path_and_query(path).build();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = uri.unwrap_or_default();
        *request.headers_mut() = parts.headers.clone();
        match self.client.request(request).await {
            Ok(response) => Ok(response.map(Body::new)),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Work {
    pub(super) fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Sends a request.
    ///
    /// # Errors
    ///
    /// The server ended, or has no time left.
    pub(super) async fn send(&mut self, parts: &Parts, body: Bytes) -> Result<Response<Body>, String> {
        let backend = self.backend.clone();
        tokio::select! {
            biased;
            response = backend.send(parts, body) => match response {
                Ok(response) => Ok(response),
                Err(error) => Err(self.why(&error).await),
            },
            why = self.failed() => Err(why),
        }
    }

    /// Waits for the reason why the server cannot go on with it.
    pub(super) async fn failed(&mut self) -> String {
        if self.reason.is_none() {
            let reason = (&mut self.failed).await;
            self.reason = Some(reason.unwrap_or_else(|_| "`cargo mcp dev` was stopped".to_owned()));
        }
        self.reason.clone().unwrap_or_default()
    }

    /// The reason why the server did not answer, if it is known soon; otherwise another.
    pub(super) async fn why(&mut self, other: &str) -> String {
        let reason = timeout(REASON, self.failed()).await;
        reason.unwrap_or_else(|_| format!("the server did not answer: {other}"))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = self.asks.send(Ask::End(self.id, Some(self.backend.generation)));
    }
}

/// Says that nobody waits for a server any more, unless it is disarmed.
struct Waiting<'a>(&'a mpsc::UnboundedSender<Ask>, Option<u64>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.1.take() {
            let _ = self.0.send(Ask::End(id, None));
        }
    }
}

/// What the supervisor hears of processes.
enum Heard {
    Listens(Generation, String),
    Event(Event),
}

/// A process.
struct Running {
    stop: oneshot::Sender<()>,
    /// What is to be asked when it listens.
    questions: Vec<String>,
    /// Where it listens, and the path.
    listens: Option<(Backend, String)>,
}

/// Starts and ends servers, as the machine says.
pub(super) struct Supervisor {
    front: Arc<Front>,
    machine: front::Front,
    manner: Manner,
    say: Say,
    programs: HashMap<u64, PathBuf>,
    processes: HashMap<Generation, Running>,
    keepers: JoinSet<()>,
    asked: HashMap<u64, (Option<oneshot::Sender<Backend>>, oneshot::Sender<String>)>,
    heard: mpsc::UnboundedSender<Heard>,
    hears: mpsc::UnboundedReceiver<Heard>,
}

impl Supervisor {
    pub(super) fn new(front: Arc<Front>, settings: Settings, manner: Manner, say: Say) -> Self {
        let (heard, hears) = mpsc::unbounded_channel();
        Self {
            front,
            machine: front::Front::new(settings),
            manner,
            say,
            programs: HashMap::new(),
            processes: HashMap::new(),
            keepers: JoinSet::new(),
            asked: HashMap::new(),
            heard,
            hears,
        }
    }

    pub(super) async fn run(
        mut self,
        mut asks: mpsc::UnboundedReceiver<Ask>,
        mut news: mpsc::UnboundedReceiver<News>,
        mut stops: Stops,
    ) {
        let mut is_over = false;
        while !is_over {
            is_over = tokio::select! {
                biased;
                () = stops.next() => self.handle(Event::Interrupted),
                Some(heard) = self.hears.recv() => match heard {
                    Heard::Event(event) => self.handle(event),
                    Heard::Listens(server, url) => {
                        self.listens(server, &url);
                        false
                    }
                },
                Some(news) = news.recv() => match news {
                    News::Built { number, program } => {
                        self.programs.insert(number, program);
                        self.handle(Event::Built(number))
                    }
                    News::Failed(first) => {
                        let _ = self.front.backends.notices.send(front::broken_build(&first));
                        self.handle(Event::BuildFailed(first))
                    }
                },
                Some(ask) = asks.recv() => self.asked(ask),
                Some(_) = self.keepers.join_next() => false,
            };
        }
        self.end().await;
    }

    fn asked(&mut self, ask: Ask) -> bool {
        match ask {
            Ask::Begin { id, began, failed } => {
                self.asked.insert(id, (Some(began), failed));
                self.handle(Event::Client(json!({"jsonrpc": "2.0", "id": id, "method": WORK}).to_string()))
            }
            Ask::End(id, server) => {
                self.asked.remove(&id);
                match server {
                    Some(server) => self.handle(Event::Server(server, result(&id.to_string(), &json!({})))),
                    None => {
                        let params = json!({"requestId": id});
                        self.handle(Event::Client(notification("notifications/cancelled", Some(&params))))
                    }
                }
            }
        }
    }

    /// Does what an event makes necessary; says whether that is the end.
    fn handle(&mut self, event: Event) -> bool {
        if let Event::Gone(server, _) = &event {
            self.forget(*server);
        }
        let mut is_over = false;
        for effect in self.machine.handle(event) {
            match effect {
                Effect::ToClient(line) => self.fail(&line),
                Effect::ToServer(server, line) => self.send(server, line),
                Effect::Start(server, build) => self.start(server, build),
                Effect::CloseInput(_) => {}
                Effect::Stop(server) => self.forget(server),
                Effect::TookOver(server, kinds) => self.took_over(server, &kinds),
                Effect::Timer(delay, timer) => {
                    let heard = self.heard.clone();
                    tokio::spawn(async move {
                        tokio::time::sleep(delay).await;
                        let _ = heard.send(Heard::Event(Event::Timer(timer)));
                    });
                }
                Effect::Say(Tone::Info, text) => self.say.info(text),
                Effect::Say(Tone::Warning, text) => self.say.warn(text),
                Effect::End => is_over = true,
            }
        }
        let machine = &self.machine;
        for (_, program) in self.programs.extract_if(|build, _| !machine.keeps(*build)) {
            let _ = std::fs::remove_file(program);
        }
        is_over
    }

    /// Tells a request that it has failed.
    fn fail(&mut self, line: &str) {
        let Some(message) = Message::read(line) else { return };
        let id = message.id.and_then(|id| id.get().parse::<u64>().ok());
        if let Some((_, failed)) = id.and_then(|id| self.asked.remove(&id)) {
            let _ = failed.send(message.error_message().unwrap_or_default());
        }
    }

    /// Gives a request its server, or asks the server what the machine wants to know.
    fn send(&mut self, server: Generation, line: String) {
        let Some(message) = Message::read(&line) else { return };
        let Some(running) = self.processes.get_mut(&server) else { return };
        match (message.method.as_deref(), message.id) {
            (Some(WORK), Some(id)) => {
                let asked = id.get().parse::<u64>().ok().and_then(|id| self.asked.get_mut(&id));
                let began = asked.and_then(|(began, _)| began.take());
                if let Some(((backend, _), began)) = running.listens.as_ref().zip(began) {
                    let _ = began.send(backend.clone());
                }
            }
            (Some(_), Some(_)) => match running.listens.clone() {
                Some((backend, path)) => self.probe(backend, path, line),
                None => running.questions.push(line),
            },
            _ => {}
        }
    }

    /// Asks a server for a list.
    fn probe(&mut self, backend: Backend, path: String, line: String) {
        let heard = self.heard.clone();
        self.keepers.spawn(async move {
            let Some((message, id)) = Message::read(&line).and_then(|message| message.id.map(|id| (message, id)))
            else {
                return;
            };
            let method = message.method.as_deref().unwrap_or_default();
            let request = Request::builder()
                .method(Method::POST)
                .uri(path)
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::ACCEPT, "application/json, text/event-stream")
                .header(VERSION, HeaderValue::from_static("2026-07-28"))
                .header("mcp-method", method)
                .body(());
            let failed = || error(id.get(), INTERNAL_ERROR, "it does not tell");
            let answer = match request {
                Ok(request) => backend.send(&request.into_parts().0, line.clone().into()).await,
                Err(error) => Err(error.to_string()),
            };
            let text = match answer {
                Ok(response) => response.into_body().collect().await.ok().map(http_body_util::Collected::to_bytes),
                // The end of the process is told by its keeper.
                Err(_) => None,
            };
            let text = text.and_then(|text| String::from_utf8(text.to_vec()).ok());
            let is_answer = |text: &String| {
                Message::read(text).and_then(|message| Key::read(message.id?.get())) == Key::read(id.get())
            };
            let text = text.filter(is_answer).unwrap_or_else(failed);
            let _ = heard.send(Heard::Event(Event::Server(backend.generation, text)));
        });
    }

    fn start(&mut self, server: Generation, build: u64) {
        let Some(program) = self.programs.get(&build) else { return };
        let words = ["--http", "127.0.0.1:0"].map(str::to_owned);
        let args: Vec<_> = words.into_iter().chain(self.manner.args.iter().cloned()).collect();
        let failed =
            |error: std::io::Error| Heard::Event(Event::Gone(server, format!("it cannot be started: {error}")));
        match guarded(program, &args, &self.manner.env).and_then(|mut command| command.spawn()) {
            Ok(mut child) => {
                let (stop, stopped) = oneshot::channel();
                self.processes.insert(server, Running { stop, questions: Vec::new(), listens: None });
                let stderr = child.stderr.take();
                self.keepers.spawn(keep(child, stderr, server, stopped, self.heard.clone(), self.say.clone()));
            }
            Err(error) => {
                let _ = self.heard.send(failed(error));
            }
        }
    }

    /// A server says where it listens.
    fn listens(&mut self, server: Generation, url: &str) {
        let Some(running) = self.processes.get_mut(&server) else { return };
        let (authority, path) = url.split_once('/').unwrap_or((url, ""));
        let (backend, path) = (Backend::new(server, authority.to_owned()), format!("/{path}"));
        lock(&self.front.backends.alive).insert(server, backend.clone());
        let questions = std::mem::take(&mut running.questions);
        running.listens = Some((backend.clone(), path.clone()));
        for line in questions {
            self.probe(backend.clone(), path.clone(), line);
        }
    }

    /// Has everybody go on with another server.
    fn took_over(&mut self, server: Generation, kinds: &BTreeSet<Kind>) {
        let running = self.processes.get(&server);
        let Some((backend, _)) = running.and_then(|running| running.listens.clone()) else { return };
        let sessions = self.front.all_sessions();
        for session in &sessions {
            lock(&session.state).rebuilt(kinds);
        }
        let _ = self.front.backends.changes.send(kinds.clone());
        self.front.backends.current.send_replace(Some(backend.clone()));
        let front = Arc::clone(&self.front);
        self.keepers.spawn(async move {
            for session in sessions {
                // A session that is not taken up is told so when it is used.
                let _ = front.join(&session, &backend).await;
            }
        });
    }

    /// Ends a process, if it is still there, and forgets it.
    fn forget(&mut self, server: Generation) {
        lock(&self.front.backends.alive).remove(&server);
        for session in self.front.all_sessions() {
            lock(&session.state).forget(server);
        }
        if let Some(running) = self.processes.remove(&server) {
            let _ = running.stop.send(());
        }
    }

    async fn end(mut self) {
        self.front.backends.is_over.send_replace(true);
        let servers: Vec<_> = self.processes.keys().copied().collect();
        for server in servers {
            self.forget(server);
        }
        let keepers = async { while self.keepers.join_next().await.is_some() {} };
        let _ = timeout(LAST, keepers).await;
        self.keepers.shutdown().await;
    }
}

/// Watches over a process: shows what it says, finds out where it listens, and ends it.
async fn keep(
    mut child: Child,
    stderr: Option<impl AsyncRead + Unpin + Send + 'static>,
    server: Generation,
    stopped: oneshot::Receiver<()>,
    heard: mpsc::UnboundedSender<Heard>,
    say: Say,
) {
    let leash = Leash::of(&child);
    // As long as it is open, the guard knows that we are there.
    let _stdin = child.stdin.take();
    let stdout = child.stdout.take();
    let said = heard.clone();
    let reading = tokio::spawn(async move {
        let Some(stderr) = stderr else { return };
        let mut lines = BufReader::new(stderr).split(b'\n');
        let mut listens = false;
        while let Ok(Some(line)) = lines.next_segment().await {
            let line = String::from_utf8_lossy(&line);
            match line.split_once(" listens on http://") {
                Some((_, url)) if !listens => {
                    listens = true;
                    let _ = said.send(Heard::Listens(server, url.trim().to_owned()));
                }
                _ => say.verbatim(&line),
            }
        }
    });
    tokio::select! {
        biased;
        _ = stopped => terminate(&mut child, leash).await,
        status = child.wait() => {
            drop(leash);
            let how = timeout(REASON, guard::how(stdout)).await.ok().flatten();
            // What it said at its end comes before the end.
            let _ = timeout(Duration::from_millis(200), reading).await;
            let _ = heard.send(Heard::Event(Event::Gone(server, how.unwrap_or_else(|| describe(status)))));
        }
    }
}
