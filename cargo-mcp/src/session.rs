//! The connection of one command. It ends with the command, on Ctrl-C, or when the server is silent for too long.

use std::{sync::Arc, time::Duration};

use rmcp::{
    ServiceError,
    model::{
        CancelledNotificationParam, ClientRequest, ErrorCode, ErrorData, InputRequests, InputRequiredResult,
        InputResponses, Prompt, ProtocolVersion, RequestMetaObject, Resource, ResourceTemplate, ServerCapabilities,
        ServerPeerInfo, ServerResult, TASKS_EXTENSION_ID, Tool,
    },
    service::PeerRequestOptions,
};
use serde_json::Value;

use crate::{
    client::{self, Connection, connect_observed, describe_exit, stray_line_help},
    failure::{Failure, nearest},
    host::{Host, HostArgs},
    program::ProcessObserver,
    refusal::Refusal,
    signals::interrupt,
    target::{Target, TargetArgs},
};

/// The time that a server has to exit.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(8);

/// The time to send a message whose response does not matter.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);

/// Options of a single request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestOptions {
    /// Whether the server may run the request as a task. Off by default: a plain call reports progress.
    pub(crate) tasks: bool,
}

/// How to reach a server, and how long to wait for it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SessionArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Seconds to wait for output from the server while a request is pending; 0 waits indefinitely
    #[arg(long, value_name = "SECONDS", default_value_t = 120, help_heading = "Connection")]
    pub(crate) timeout: u64,
}

/// A connection after the handshake.
pub(crate) struct Session {
    connection: Connection<Arc<Host>>,
    pub(crate) target: Target,
    observer: ProcessObserver,
    timeout: Option<Duration>,
}

/// The server that the command line names.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NamedServer<'a> {
    pub(crate) name: Option<&'a str>,
    /// The first positional argument, which may be a misspelled name.
    pub(crate) word: Option<&'a str>,
}

/// Adds help if a word that was not recognized as a package is similar to the name of one.
pub(crate) fn suggest_package(args: &TargetArgs, word: &str, failure: Failure) -> Failure {
    let Ok(workspace) = args.workspace() else { return failure };
    let names: Vec<&str> = workspace.servers().into_iter().map(|package| package.name.as_str()).collect();
    let near = nearest(word, names);
    failure.help_if(near.map(|near| format!("`{word}` is not a package of this workspace; did you mean `{near}`?")))
}

/// Connects, runs `work`, and closes the connection.
///
/// # Errors
///
/// Returns the error of the connection or of `work`, or an interruption on Ctrl-C.
pub(crate) async fn with<T>(
    args: &SessionArgs,
    server: NamedServer<'_>,
    host: &HostArgs,
    work: impl AsyncFnOnce(&Session) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let host = Arc::new(Host::new(host, args.target.revision)?);
    let target = args.target.resolve(server.name).map_err(|failure| match server.word {
        Some(word) if server.name.is_none() && args.target.program().is_none() => {
            suggest_package(&args.target, word, failure)
        }
        _ => failure,
    })?;
    let observer = ProcessObserver::default();
    let timeout = args.target.connect_timeout();
    let handshake = connect_observed(&target, args.target.revision, host.clone(), timeout, &observer);
    let connection = tokio::select! {
        connection = handshake => connection?,
        () = interrupt() => return Err(Failure::interrupted()),
    };
    let timeout = (args.timeout > 0).then(|| Duration::from_secs(args.timeout));
    let mut session = Session { connection, target, observer, timeout };
    host.answers.set_server_name(session.title());
    let result = work(&session).await;
    host.console.clear();
    let close_timeout = if session.observer.exit_status().is_some() { Duration::ZERO } else { CLOSE_TIMEOUT };
    let _ = session.connection.close_with_timeout(close_timeout).await;
    host.restore_terminal();
    result
}

impl Session {
    pub(crate) fn host(&self) -> &Host {
        self.connection.service()
    }

    /// Returns the result of the handshake: the identity and the capabilities of the server.
    pub(crate) fn server(&self) -> ServerPeerInfo {
        match self.connection.peer_info() {
            Some(info) => ServerPeerInfo::clone(&info),
            None => ServerPeerInfo::new(Default::default(), ServerCapabilities::default()),
        }
    }

    /// Returns the server's title or name.
    pub(crate) fn title(&self) -> String {
        match self.server().server_info {
            Some(info) => info.title.unwrap_or(info.name),
            None => self.target.to_string(),
        }
    }

    /// Waits for a response.
    ///
    /// # Errors
    ///
    /// Returns an error if the server responds with one, exits, or is silent for too long, on Ctrl-C, or if a request
    /// of the server cannot be answered.
    pub(crate) async fn answer<T>(
        &self,
        what: &str,
        response: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            response = response => match (response, self.host().take_failure()) {
                (_, Some(failure)) => Err(failure),
                (Ok(response), None) => Ok(response),
                (Err(error), None) => Err(failure(self, what, error)),
            },
            failure = self.host().wait_for_failure() => Err(failure),
            () = self.exited_while_asking() => Err(failure(self, what, ServiceError::TransportClosed)),
            () = interrupt() => Err(Failure::interrupted()),
            limit = self.host().wait_for_silence(self.timeout) => Err(Failure::connection(format_args!(
                "{what}: no output from the server for {} s", limit.as_secs()
            )).help("`--timeout` extends the limit")),
        }
    }

    /// Sends a request and waits for its response. Cancels the request if waiting fails.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Session::answer`] does. An error response is the inner result.
    pub(crate) async fn request(
        &self,
        what: &str,
        request: ClientRequest,
        request_options: RequestOptions,
    ) -> Result<Result<ServerResult, ErrorData>, Failure> {
        let mut options = PeerRequestOptions::no_options();
        options.meta = Some(self.meta(request_options));
        let sent = self.connection.send_request_with_option(request, options);
        let handle = self.answer(what, sent).await?;
        let id = handle.id.clone();
        let mut is_answered = false;
        let response = self
            .answer(what, async {
                let response = handle.await_response().await;
                is_answered = true;
                match response {
                    Ok(result) => Ok(Ok(result)),
                    Err(ServiceError::McpError(error)) => Ok(Err(error)),
                    Err(error) => Err(error),
                }
            })
            .await;
        if !is_answered {
            let cancelled = CancelledNotificationParam::new(Some(id), Some("cancelled by the user".to_owned()));
            let _ = tokio::time::timeout(NOTIFY_TIMEOUT, self.connection.notify_cancelled(cancelled)).await;
        }
        response
    }

    /// Sends a request and ignores its response, because the command is about to end.
    pub(crate) async fn request_and_forget(&self, request: ClientRequest, request_options: RequestOptions) {
        let mut options = PeerRequestOptions::with_timeout(NOTIFY_TIMEOUT);
        options.meta = Some(self.meta(request_options));
        if let Ok(handle) = self.connection.send_request_with_option(request, options).await {
            let _ = handle.await_response().await;
        }
    }

    /// Returns the `_meta` members that the client does not add itself.
    fn meta(&self, request_options: RequestOptions) -> RequestMetaObject {
        let mut meta = RequestMetaObject::new();
        if self.is_legacy() {
            return meta;
        }
        meta.set_log_level(self.host().level);
        if request_options.tasks {
            let mut capabilities = self.host().capabilities();
            let extensions = capabilities.extensions.get_or_insert_default();
            extensions.insert(TASKS_EXTENSION_ID.to_owned(), Default::default());
            meta.set_client_capabilities(capabilities);
        }
        meta
    }

    /// Sets the log level, in revisions where that is a separate request. Ignores errors.
    #[expect(deprecated, reason = "current servers send log messages")]
    pub(crate) async fn set_log_level(&self) {
        if self.is_legacy() && self.server().capabilities.logging.is_some() {
            let level = rmcp::model::SetLevelRequestParams::new(self.host().level);
            let _ = tokio::time::timeout(NOTIFY_TIMEOUT, self.connection.set_level(level)).await;
        }
    }

    /// Returns whether the connection began with an `initialize` request, as before 2026-07-28.
    pub(crate) fn is_legacy(&self) -> bool {
        self.server().protocol_version.has_initialize()
    }

    /// Returns whether tasks have the form of 2025-11-25.
    pub(crate) fn has_legacy_tasks(&self) -> bool {
        self.server().protocol_version == ProtocolVersion::V_2025_11_25
    }

    /// Sleeps.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Session::answer`] does.
    pub(crate) async fn pause(&self, time: Duration) -> Result<(), Failure> {
        self.answer("", async {
            tokio::time::sleep(time).await;
            Ok(())
        })
        .await
    }

    /// Answers the input requests of a server.
    ///
    /// # Errors
    ///
    /// Returns an error if a request cannot be answered, or on Ctrl-C.
    pub(crate) async fn fulfil(&self, what: &str, asked: InputRequests) -> Result<InputResponses, Failure> {
        let responses = async { self.host().fulfil(asked).await.map_err(ServiceError::McpError) };
        self.answer(what, responses).await
    }

    /// Detects that the program exits while the user is asked. The client would report that only after the answer.
    async fn exited_while_asking(&self) {
        while !(self.host().is_asking() && self.observer.exit_status().is_some()) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Returns the tools, or none if the server does not declare the capability.
    pub(crate) async fn tools(&self) -> Result<Vec<Tool>, Failure> {
        self.list("tools/list", |has| has.tools.is_some(), self.connection.list_all_tools()).await
    }

    pub(crate) async fn prompts(&self) -> Result<Vec<Prompt>, Failure> {
        self.list("prompts/list", |has| has.prompts.is_some(), self.connection.list_all_prompts()).await
    }

    pub(crate) async fn resources(&self) -> Result<Vec<Resource>, Failure> {
        self.list("resources/list", |has| has.resources.is_some(), self.connection.list_all_resources()).await
    }

    pub(crate) async fn templates(&self) -> Result<Vec<ResourceTemplate>, Failure> {
        let list = async {
            match self.connection.list_all_resource_templates().await {
                // Some servers with resources do not implement templates.
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => Ok(Vec::new()),
                listed => listed,
            }
        };
        self.list("resources/templates/list", |has| has.resources.is_some(), list).await
    }

    async fn list<T>(
        &self,
        method: &str,
        is_declared: impl Fn(&ServerCapabilities) -> bool,
        list: impl Future<Output = Result<Vec<T>, ServiceError>>,
    ) -> Result<Vec<T>, Failure> {
        if is_declared(&self.server().capabilities) { self.answer(method, list).await } else { Ok(Vec::new()) }
    }
}

/// Prints a result as JSON.
///
/// # Errors
///
/// Returns an error if the result cannot be serialized.
pub(crate) fn print_raw(result: &impl serde::Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(result).map_err(|error| Failure::connection(error.to_string()))?;
    crate::output::print_json(&json);
    Ok(())
}

/// Converts an error response to a failure.
pub(crate) fn rejection(session: &Session, what: &str, error: ErrorData) -> Failure {
    let help = missing_capability_help(session, &error.message).map(str::to_owned);
    let help = help.or_else(|| Some(format!("error data: {}", error.data.as_ref()?)));
    Failure::response(what, error).help_if(help)
}

/// Returns help if an error message mentions a capability that this client has not declared.
pub(crate) fn missing_capability_help(session: &Session, message: &str) -> Option<&'static str> {
    let message = message.to_lowercase();
    let has = session.host().capabilities();
    [
        (
            "elicitation",
            has.elicitation.is_some(),
            "the server asks for input: run this in a terminal or pass `--answer KEY=VALUE`",
        ),
        ("sampling", has.sampling.is_some(), "the server requests sampling: pass the response with `--sample TEXT`"),
        ("roots", has.roots.is_some(), "the server requests roots: pass them with `--root DIR`"),
    ]
    .into_iter()
    .find(|(name, declared, _)| !declared && message.contains(name))
    .map(|(_, _, help)| help)
}

/// Converts the error of a request to a failure.
fn failure(session: &Session, what: &str, error: ServiceError) -> Failure {
    if let (Target::Url { url, headers }, Some(refusal)) = (&session.target, Refusal::of_request(&error)) {
        return refusal.failure(Failure::tool, what, url, headers);
    }
    let is_closed = matches!(error, ServiceError::TransportClosed | ServiceError::TransportSend(_));
    let failure = match (is_closed, session.observer.exit_status()) {
        (true, Some(status)) => {
            Failure::connection(format_args!("{what}: the server exited ({})", describe_exit(status)))
        }
        (true, None) => Failure::connection(format_args!("{what}: the server closed the connection")),
        (false, _) => {
            return match error {
                ServiceError::McpError(error) => rejection(session, what, error),
                ServiceError::UnexpectedResponse => {
                    Failure::connection(format_args!("{what}: the response does not conform to the protocol"))
                        .help("`cargo mcp check` shows the details")
                }
                error => client::request_failure(what, error),
            };
        }
    };
    match session.observer.stray_line() {
        Some(line) => failure.help(stray_line_help(&line)),
        None if matches!(session.target, Target::Url { .. }) => failure,
        None => failure.help("its output on stderr is shown above, if there is any"),
    }
}

/// The maximum number of rounds.
const MAX_ROUNDS: usize = 64;

/// The rounds of a request, each of which answers the input requests of the previous one.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    count: usize,
    next: Round,
}

/// The members that a round adds to the request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Round {
    /// The responses to the input requests.
    pub(crate) responses: Option<InputResponses>,
    /// The state that the server expects back.
    pub(crate) state: Option<String>,
}

impl Rounds {
    /// Sends a request, and repeats it with responses for as long as the server requires input.
    ///
    /// # Errors
    ///
    /// Returns an error if there are too many rounds, or as [`Session::request`] and [`Session::fulfil`] do.
    pub(crate) async fn request(
        &mut self,
        session: &Session,
        what: &str,
        options: RequestOptions,
        request: impl Fn(Round) -> ClientRequest,
    ) -> Result<Result<ServerResult, ErrorData>, Failure> {
        loop {
            match session.request(what, request(self.next.clone()), options).await? {
                Ok(ServerResult::InputRequiredResult(asked)) => self.answer(session, what, asked).await?,
                response => return Ok(response),
            }
        }
    }

    async fn answer(&mut self, session: &Session, what: &str, asked: InputRequiredResult) -> Result<(), Failure> {
        self.count(what)?;
        let requests = asked.input_requests.unwrap_or_default();
        if requests.is_empty() {
            // The server asks the client to try again later.
            session.pause(Duration::from_millis(100)).await?;
        }
        let responses = session.fulfil(what, requests).await?;
        self.next = Round { responses: (!responses.is_empty()).then_some(responses), state: asked.request_state };
        Ok(())
    }

    /// Asks the user to visit the pages that an error names. Returns whether to send the request again.
    ///
    /// # Errors
    ///
    /// Returns an error if there are too many rounds, if the user cannot be asked, or on Ctrl-C.
    pub(crate) async fn visit_pages(
        &mut self,
        session: &Session,
        what: &str,
        error: &ErrorData,
    ) -> Result<bool, Failure> {
        self.count(what)?;
        let pages = error.data.as_ref().and_then(|data| data.get("elicitations")).and_then(Value::as_array);
        let pages = pages.cloned().unwrap_or_default();
        session.answer(what, async { Ok(session.host().visit(pages).await) }).await
    }

    fn count(&mut self, what: &str) -> Result<(), Failure> {
        self.count += 1;
        if self.count > MAX_ROUNDS {
            return Err(Failure::connection(format_args!(
                "{what}: the server required input {MAX_ROUNDS} times without a result"
            )));
        }
        Ok(())
    }
}
