//! The client's side of a connection: handles the requests and notifications of the server.

// Newer revisions deprecate roots, sampling and logging, but current servers use them.
#![expect(deprecated, reason = "current servers use roots, sampling and logging")]

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
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
    arguments::elicit::{Answers, in_terminal, wait_until_visited},
    client::identity,
    console::Console,
    failure::Failure,
    pages,
    revision::Revision,
};

/// How to answer the requests of a server.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct HostArgs {
    /// Answer the field KEY of an elicitation with VALUE (may be repeated)
    #[arg(long, help_heading = "Answers", value_name = "KEY=VALUE")]
    pub(crate) answer: Vec<String>,
    /// Answer the next elicitation with a JSON object, `decline` or `cancel` (may be repeated)
    #[arg(long, help_heading = "Answers", value_name = "JSON")]
    pub(crate) answer_json: Vec<String>,
    /// Declare a directory as a root (may be repeated)
    #[arg(long, help_heading = "Answers", value_name = "DIR")]
    pub(crate) root: Vec<PathBuf>,
    /// Answer sampling requests with this text
    #[arg(long, help_heading = "Answers", value_name = "TEXT")]
    pub(crate) sample: Option<String>,
    /// The minimum level of log messages
    #[arg(long, help_heading = "Answers", value_name = "LEVEL", value_parser = level_parser(), default_value = "info")]
    pub(crate) log_level: Option<LoggingLevel>,
    /// Whether to declare the extension MCP Apps.
    #[arg(skip)]
    pub(crate) shows_pages: bool,
}

fn level_parser() -> impl TypedValueParser<Value = LoggingLevel> {
    let levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    PossibleValuesParser::new(levels).try_map(|level| serde_json::from_value(level.into()))
}

/// Handles the requests and notifications of a server.
pub(crate) struct Host {
    pub(crate) console: Console,
    config: ClientConfig,
    pub(crate) answers: Answers,
    roots: Vec<Root>,
    sample: Option<String>,
    pub(crate) level: LoggingLevel,
    /// Held while the user is asked, since there is one terminal.
    turn: tokio::sync::Mutex<()>,
    asking: AtomicBool,
    /// The time of the server's last notification or the user's last answer.
    last_activity: Mutex<Instant>,
    failure: Mutex<Option<Failure>>,
    failure_added: Notify,
}

impl Host {
    /// Creates a host.
    ///
    /// # Errors
    ///
    /// Returns an error if the value of an option is invalid.
    pub(crate) fn new(args: &HostArgs, revision: Option<Revision>) -> Result<Self, Failure> {
        let answers = Answers::new(&args.answer, &args.answer_json)?;
        let roots = args.root.iter().map(root).collect::<Result<Vec<_>, _>>()?;
        let mut config = ClientConfig::new(capabilities(args), identity());
        if let Some(revision) = revision {
            config = config.with_protocol_version(revision.into());
        }
        Ok(Self {
            console: Console::new(),
            config,
            answers,
            roots,
            sample: args.sample.clone(),
            level: args.log_level.unwrap_or(LoggingLevel::Info),
            turn: tokio::sync::Mutex::default(),
            asking: AtomicBool::new(false),
            last_activity: Mutex::new(Instant::now()),
            failure: Mutex::default(),
            failure_added: Notify::new(),
        })
    }

    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        self.config.capabilities.clone()
    }

    /// Clears progress bars and reports unused answers.
    pub(crate) fn finish(&self) {
        self.console.clear();
        for option in self.answers.unused() {
            self.console.line(&format!("note: `{option}` was not used, because the server did not ask for it"));
        }
    }

    /// Returns whether the user is being asked.
    pub(crate) fn is_asking(&self) -> bool {
        self.asking.load(Ordering::Relaxed)
    }

    /// Restores the terminal if the user is still being asked.
    pub(crate) fn restore_terminal(&self) {
        if self.is_asking() {
            let _ = crossterm::terminal::disable_raw_mode();
            let _ =
                crossterm::execute!(std::io::stderr(), crossterm::cursor::Show, crossterm::cursor::MoveToNextLine(2));
        }
    }

    /// Makes the command fail.
    fn fail(&self, failure: Failure) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        self.failure_added.notify_one();
    }

    /// Returns the reason why the command must fail, if there is one.
    pub(crate) fn take_failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Waits until the command must fail.
    pub(crate) async fn wait_for_failure(&self) -> Failure {
        loop {
            self.failure_added.notified().await;
            if let Some(failure) = self.take_failure() {
                return failure;
            }
        }
    }

    /// Waits until the server has been silent for `limit`. Time in which the user is asked does not count.
    pub(crate) async fn wait_for_silence(&self, limit: Option<Duration>) -> Duration {
        let Some(limit) = limit else { return std::future::pending().await };
        self.record_activity();
        loop {
            let last_activity = *self.last_activity.lock().unwrap_or_else(PoisonError::into_inner);
            let left = if self.is_asking() { limit } else { limit.saturating_sub(last_activity.elapsed()) };
            if left.is_zero() {
                return limit;
            }
            tokio::time::sleep(left).await;
        }
    }

    fn record_activity(&self) {
        *self.last_activity.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Answers the input requests of a server.
    ///
    /// # Errors
    ///
    /// Returns an error if a request is not supported.
    pub(crate) async fn fulfil(&self, requests: InputRequests) -> Result<InputResponses, ErrorData> {
        let mut responses = BTreeMap::new();
        for (key, request) in requests {
            let response = match request {
                InputRequest::Elicitation(request) => json(self.elicit(request.params).await)?,
                InputRequest::CreateMessage(request) => json(self.sample(&request.params)?)?,
                InputRequest::ListRoots(_) => json(ListRootsResult::new(self.roots.clone()))?,
                _ => return Err(ErrorData::invalid_request("unsupported input request", None)),
            };
            responses.insert(key, response);
        }
        Ok(responses)
    }

    /// Asks the user to visit pages and waits. Returns whether all of them were visited.
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
        let confirmed = wait_until_visited().await;
        self.asking.store(false, Ordering::Relaxed);
        confirmed.unwrap_or_else(|failure| {
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
        self.record_activity();
        self.asking.store(false, Ordering::Relaxed);
        answered.unwrap_or_else(|failure| {
            self.fail(failure);
            ElicitResult::new(ElicitationAction::Cancel)
        })
    }

    fn sample(&self, request: &CreateMessageRequestParams) -> Result<CreateMessageResult, ErrorData> {
        let Some(text) = &self.sample else {
            return Err(ErrorData::invalid_request(
                "sampling is not available; `--sample TEXT` provides a response",
                None,
            ));
        };
        for message in &request.messages {
            let text = message.content.iter().filter_map(|content| Some(content.as_text()?.text.as_str()));
            text.for_each(|text| self.console.line(&format!("sampling request: {text}")));
        }
        let message = SamplingMessage::assistant_text(text.clone());
        Ok(CreateMessageResult::new(message, "cargo-mcp".to_owned()).with_stop_reason("endTurn"))
    }
}

fn json(value: impl serde::Serialize) -> Result<serde_json::Value, ErrorData> {
    serde_json::to_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn root(path: &PathBuf) -> Result<Root, Failure> {
    let invalid =
        |why: &dyn std::fmt::Display| Failure::usage(format_args!("invalid root `{}`: {why}", path.display()));
    let full = std::path::absolute(path).map_err(|error| invalid(&error))?;
    if !full.is_dir() {
        return Err(invalid(&"not a directory"));
    }
    let uri = url::Url::from_directory_path(&full).map_err(|()| invalid(&"cannot be written as a URI"))?;
    // Only the root directory keeps the slash at the end of its URI.
    let root = Root::new(if full.parent().is_some() { uri.as_str().trim_end_matches('/') } else { uri.as_str() });
    Ok(match full.file_name().and_then(|name| name.to_str()) {
        Some(name) => root.with_name(name),
        None => root,
    })
}

/// Declares only the capabilities that the options provide, so that a server reports a missing one.
fn capabilities(args: &HostArgs) -> ClientCapabilities {
    let mut capabilities = ClientCapabilities::default();
    if in_terminal() || !(args.answer.is_empty() && args.answer_json.is_empty()) {
        let elicitation = ElicitationCapability::new().with_form(FormElicitationCapability::new());
        let has_url = in_terminal() || !args.answer_json.is_empty();
        capabilities.elicitation =
            Some(if has_url { elicitation.with_url(UrlElicitationCapability::new()) } else { elicitation });
    }
    if !args.root.is_empty() {
        capabilities.roots = Some(RootsCapabilities::default());
    }
    if args.sample.is_some() {
        capabilities.sampling = Some(SamplingCapability::default());
    }
    if args.shows_pages {
        let settings = [("mimeTypes".to_owned(), serde_json::json!([pages::MEDIA_TYPE]))];
        let extensions = capabilities.extensions.get_or_insert_default();
        extensions.insert(pages::EXTENSION.to_owned(), settings.into_iter().collect());
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
        self.record_activity();
        let token = progress.progress_token.0.to_string();
        self.console.progress(&token, progress.progress, progress.total, progress.message.as_deref());
    }

    async fn on_logging_message(&self, message: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        self.record_activity();
        let level = format!("{:?}", message.level).to_lowercase();
        self.console.log(&level, message.logger.as_deref(), &message.data);
    }

    async fn on_task_status(&self, _: TaskStatusNotificationParams, _: NotificationContext<RoleClient>) {
        self.record_activity();
    }
}
