//! Our side of a connection: what the server asks us and tells us.

// Roots, sampling and logging are on their way out of the protocol; servers of today have them.
#![expect(deprecated, reason = "servers of today ask for roots and samples, and log")]

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
        ElicitResult, ElicitationAction, ElicitationCapability, ErrorData, FormElicitationCapability, InputRequest,
        InputRequests, InputResponses, ListRootsResult, LoggingLevel, LoggingMessageNotificationParam,
        ProgressNotificationParam, Root, RootsCapabilities, SamplingCapability, SamplingMessage,
        TaskStatusNotificationParams, UrlElicitationCapability,
    },
    service::{NotificationContext, RequestContext},
};
use tokio::sync::Notify;

use crate::{
    client::identity,
    console::Console,
    elicit::{Answers, in_terminal, until_done},
    failure::Failure,
    revision::Revision,
};

/// What is said to a server that asks.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct HostArgs {
    /// What to fill in where the server asks the user, by the field's name (may be repeated)
    #[arg(long, help_heading = "Answers", value_name = "KEY=VALUE")]
    pub(crate) answer: Vec<String>,
    /// The answer to the server's first, second … question: a JSON object, `decline` or `cancel` (may be repeated)
    #[arg(long, help_heading = "Answers", value_name = "JSON")]
    pub(crate) answer_json: Vec<String>,
    /// A directory that the server may know of as a root (may be repeated)
    #[arg(long, help_heading = "Answers", value_name = "DIR")]
    pub(crate) root: Vec<PathBuf>,
    /// What the model says where the server asks for a sample of it
    #[arg(long, help_heading = "Answers", value_name = "TEXT")]
    pub(crate) sample: Option<String>,
    /// The least level of log messages to ask for
    #[arg(long, help_heading = "Answers", value_name = "LEVEL", value_enum, default_value_t)]
    pub(crate) log_level: Level,
}

/// A level of log messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Level {
    Debug,
    #[default]
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl From<Level> for LoggingLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Debug => Self::Debug,
            Level::Info => Self::Info,
            Level::Notice => Self::Notice,
            Level::Warning => Self::Warning,
            Level::Error => Self::Error,
            Level::Critical => Self::Critical,
            Level::Alert => Self::Alert,
            Level::Emergency => Self::Emergency,
        }
    }
}

/// Our side of a connection.
pub(crate) struct Host {
    pub(crate) console: Console,
    config: ClientConfig,
    answers: Answers,
    roots: Vec<Root>,
    sample: Option<String>,
    level: Level,
    /// One question at a time.
    turn: tokio::sync::Mutex<()>,
    asking: AtomicBool,
    /// When the server last said something.
    heard: Mutex<Instant>,
    failure: Mutex<Option<Failure>>,
    failing: Notify,
}

impl Host {
    /// # Errors
    ///
    /// An option's value cannot be used.
    pub(crate) fn new(args: &HostArgs, revision: Option<Revision>) -> Result<Self, Failure> {
        let answers = Answers::new(&args.answer, &args.answer_json)?;
        let roots = args.root.iter().map(root).collect::<Result<Vec<_>, _>>()?;
        let mut config = ClientConfig::new(capabilities(args, &answers), identity());
        if let Some(revision) = revision {
            config = config.with_protocol_version(revision.into());
        }
        Ok(Self {
            console: Console::new(),
            config,
            answers,
            roots,
            sample: args.sample.clone(),
            level: args.log_level,
            turn: tokio::sync::Mutex::default(),
            asking: AtomicBool::new(false),
            heard: Mutex::new(Instant::now()),
            failure: Mutex::default(),
            failing: Notify::new(),
        })
    }

    /// Remembers who asks.
    pub(crate) fn connected(&self, title: String) {
        self.answers.connected(title);
    }

    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        self.config.capabilities.clone()
    }

    pub(crate) fn level(&self) -> LoggingLevel {
        self.level.into()
    }

    /// Makes room for the result, and tells of answers that no question wanted.
    pub(crate) fn done(&self) {
        self.console.clear();
        for option in self.answers.unused() {
            self.console.line(&format!("note: the server asked nothing that `{option}` answers"));
        }
    }

    /// Whether the user owes an answer.
    pub(crate) fn is_asking(&self) -> bool {
        self.asking.load(Ordering::Relaxed)
    }

    /// Leaves the terminal as it was, if a question stands in it whose answer nobody waits for any more.
    pub(crate) fn leave_terminal(&self) {
        if self.is_asking() {
            let _ = crossterm::terminal::disable_raw_mode();
            let _ =
                crossterm::execute!(std::io::stderr(), crossterm::cursor::Show, crossterm::cursor::MoveToNextLine(2));
        }
    }

    /// Ends the command: nothing that the server could do would help.
    fn fail(&self, failure: Failure) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        self.failing.notify_one();
    }

    /// Why the command must end, if it must.
    pub(crate) fn failed(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Waits until the command must end.
    pub(crate) async fn failing(&self) -> Failure {
        loop {
            self.failing.notified().await;
            if let Some(failure) = self.failed() {
                return failure;
            }
        }
    }

    /// Ends when the server was silent for so long; the time in which we owe the answer does not count.
    pub(crate) async fn silence(&self, limit: Option<Duration>) -> Duration {
        let Some(limit) = limit else { return std::future::pending().await };
        self.hear();
        loop {
            let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            let left = match self.is_asking() {
                true => limit,
                false => limit.saturating_sub(heard.elapsed()),
            };
            if left.is_zero() {
                return limit;
            }
            tokio::time::sleep(left).await;
        }
    }

    fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Answers what a server wants to know before it goes on.
    ///
    /// # Errors
    ///
    /// We do not have what it asks for.
    pub(crate) async fn fulfil(&self, requests: InputRequests) -> Result<InputResponses, ErrorData> {
        let mut responses = BTreeMap::new();
        for (key, request) in requests {
            let response = match request {
                InputRequest::Elicitation(request) => json(self.elicit(request.params).await)?,
                InputRequest::CreateMessage(request) => json(self.sample(&request.params)?)?,
                InputRequest::ListRoots(_) => json(ListRootsResult::new(self.roots.clone()))?,
                _ => return Err(ErrorData::invalid_request("this client does not know the request", None)),
            };
            responses.insert(key, response);
        }
        Ok(responses)
    }

    /// Sends the user to pages, and waits until they were visited; whether all of them were.
    pub(crate) async fn visit(&self, pages: Vec<serde_json::Value>) -> bool {
        let mut visited = !pages.is_empty();
        for page in pages {
            visited &= match serde_json::from_value::<ElicitRequestParams>(page) {
                Ok(page) => self.elicit(page).await.action == ElicitationAction::Accept,
                Err(_) => false,
            };
        }
        if !visited || !in_terminal() {
            return visited;
        }
        self.asking.store(true, Ordering::Relaxed);
        let done = until_done().await;
        self.asking.store(false, Ordering::Relaxed);
        done.unwrap_or_else(|failure| {
            self.fail(failure);
            false
        })
    }

    async fn elicit(&self, request: ElicitRequestParams) -> ElicitResult {
        let _turn = self.turn.lock().await;
        self.asking.store(true, Ordering::Relaxed);
        self.console.hold();
        let answered = self.answers.answer(request).await;
        self.console.resume();
        self.hear();
        self.asking.store(false, Ordering::Relaxed);
        answered.unwrap_or_else(|failure| {
            self.fail(failure);
            ElicitResult::new(ElicitationAction::Cancel)
        })
    }

    fn sample(&self, request: &CreateMessageRequestParams) -> Result<CreateMessageResult, ErrorData> {
        let Some(text) = &self.sample else {
            return Err(ErrorData::invalid_request(
                "there is no model here: `--sample TEXT` says what it answers",
                None,
            ));
        };
        for message in &request.messages {
            let text = message.content.iter().filter_map(|content| Some(content.as_text()?.text.as_str()));
            text.for_each(|text| self.console.line(&format!("asked of the model: {text}")));
        }
        let message = SamplingMessage::assistant_text(text.clone());
        Ok(CreateMessageResult::new(message, "cargo-mcp".to_owned()).with_stop_reason("endTurn"))
    }
}

fn json(value: impl serde::Serialize) -> Result<serde_json::Value, ErrorData> {
    serde_json::to_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn root(path: &PathBuf) -> Result<Root, Failure> {
    let wrong = |why: &dyn std::fmt::Display| Failure::usage(format_args!("the root `{}`: {why}", path.display()));
    let full = std::path::absolute(path).map_err(|error| wrong(&error))?;
    if !full.is_dir() {
        return Err(wrong(&"there is no such directory"));
    }
    let uri = url::Url::from_directory_path(&full).map_err(|()| wrong(&"it has no URI"))?;
    let root = Root::new(uri.as_str().trim_end_matches('/'));
    Ok(match full.file_name().and_then(|name| name.to_str()) {
        Some(name) => root.with_name(name),
        None => root,
    })
}

/// What we can do, and no more: a server that asks for something else is to say so, rather than to be refused.
fn capabilities(args: &HostArgs, answers: &Answers) -> ClientCapabilities {
    let mut capabilities = ClientCapabilities::default();
    if in_terminal() || !answers.is_empty() {
        let elicitation = ElicitationCapability::new().with_form(FormElicitationCapability::new());
        capabilities.elicitation = Some(match in_terminal() || !args.answer_json.is_empty() {
            true => elicitation.with_url(UrlElicitationCapability::new()),
            false => elicitation,
        });
    }
    if !args.root.is_empty() {
        capabilities.roots = Some(RootsCapabilities::default());
    }
    if args.sample.is_some() {
        capabilities.sampling = Some(SamplingCapability::default());
    }
    capabilities
}

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(self.elicit(request).await)
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.sample(&request)
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.roots.clone()))
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.hear();
        let token = progress.progress_token.0.to_string();
        self.console.progress(&token, progress.progress, progress.total, progress.message.as_deref());
    }

    async fn on_logging_message(&self, message: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        self.hear();
        let level = format!("{:?}", message.level).to_lowercase();
        self.console.log(&level, message.logger.as_deref(), &message.data);
    }

    async fn on_task_status(&self, _: TaskStatusNotificationParams, _: NotificationContext<RoleClient>) {
        self.hear();
    }
}
