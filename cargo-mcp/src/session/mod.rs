//! A connection for the time of one command: it ends with the command, on Ctrl-C, and when the server says nothing for too long.

mod errors;
mod rounds;

use std::{sync::Arc, time::Duration};

pub(crate) use self::rounds::{Round, Rounds};
use crate::{
    client::{Connection, witnessed},
    failure::Failure,
    host::{Host, HostArgs},
    near::nearest,
    program::Witness,
    target::{Target, TargetArgs},
    workspace::Workspace,
};
use rmcp::{
    RoleClient, ServiceError,
    model::{
        CancelledNotificationParam, ClientRequest, ErrorCode, ErrorData, InputRequests, InputResponses, Prompt,
        ProtocolVersion, RequestMetaObject, Resource, ResourceTemplate, ServerCapabilities, ServerPeerInfo,
        ServerResult, TASKS_EXTENSION_ID, Tool,
    },
    service::{Peer, PeerRequestOptions},
};

/// How long a server may take to end.
const FAREWELL: Duration = Duration::from_secs(8);

/// How long a server may take to hear that we go.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// What a request declares beside the connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras {
    /// That it may become a task. Without need it does not: what is waited for shows its progress.
    pub(crate) tasks: bool,
}

/// How a server is reached, and how it is waited for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SessionArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// How many seconds the server may be silent while it owes an answer; 0 is for ever
    #[arg(long, value_name = "SECONDS", default_value_t = 120, help_heading = "Connection")]
    pub(crate) timeout: u64,
}

/// A server that has shaken hands.
pub(crate) struct Session {
    connection: Connection<Arc<Host>>,
    target: Target,
    witness: Witness,
    timeout: Option<Duration>,
}

/// Which server is meant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Server<'a> {
    pub(crate) name: Option<&'a str>,
    /// The word that stands where the name might.
    pub(crate) word: Option<&'a str>,
}

/// Where a package is misspelled, it is taken for something else: says which one may have been meant.
pub(crate) fn perhaps(args: &TargetArgs, word: &str, failure: Failure) -> Failure {
    let Ok(workspace) = Workspace::read(&args.build) else { return failure };
    let names: Vec<&str> = workspace.servers().into_iter().map(|package| package.name.as_str()).collect();
    match nearest(word, names) {
        Some(near) => failure.help(format_args!("`{word}` is no package here, did you mean `{near}`?")),
        None => failure,
    }
}

/// Connects, works, and takes leave whatever came of it.
///
/// # Errors
///
/// Those of the connection and of the work; Ctrl-C.
pub(crate) async fn with<T>(
    args: &SessionArgs,
    server: Server<'_>,
    host: &HostArgs,
    work: impl AsyncFnOnce(&Session) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let host = Arc::new(Host::new(host, args.target.revision)?);
    let target = args.target.resolve(server.name).map_err(|failure| match server.word {
        Some(word) if server.name.is_none() && args.target.command.is_empty() => perhaps(&args.target, word, failure),
        _ => failure,
    })?;
    let witness = Witness::default();
    let timeout = args.target.connect_timeout();
    let shaking = witnessed(&target, args.target.revision, host.clone(), timeout, &witness);
    let connection = tokio::select! {
        connection = shaking => connection?,
        () = interrupt() => return Err(Failure::interrupted()),
    };
    let timeout = (args.timeout > 0).then(|| Duration::from_secs(args.timeout));
    let mut session = Session { connection, target, witness, timeout };
    host.connected(session.title());
    let done = work(&session).await;
    host.console.clear();
    let farewell = if session.witness.ended().is_some() { Duration::ZERO } else { FAREWELL };
    let _ = session.connection.close_with_timeout(farewell).await;
    host.leave_terminal();
    done
}

/// Ends on Ctrl-C.
async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

impl Session {
    pub(crate) fn host(&self) -> &Host {
        self.connection.service()
    }

    pub(crate) fn peer(&self) -> &Peer<RoleClient> {
        self.connection.peer()
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// What the server said of itself.
    pub(crate) fn server(&self) -> ServerPeerInfo {
        match self.connection.peer_info() {
            Some(info) => ServerPeerInfo::clone(&info),
            None => ServerPeerInfo::new(Default::default(), ServerCapabilities::default()),
        }
    }

    /// What the server calls itself.
    pub(crate) fn title(&self) -> String {
        match self.server().server_info {
            Some(info) => info.title.unwrap_or(info.name),
            None => self.target.to_string(),
        }
    }

    /// Waits for an answer, as long as the server gives signs of life and nobody presses Ctrl-C.
    ///
    /// # Errors
    ///
    /// The server refuses, goes away, or is silent for too long; the user has had enough; a question of the server's cannot be answered.
    pub(crate) async fn answer<T>(
        &self,
        what: &str,
        asking: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            answer = asking => match (answer, self.host().failed()) {
                (_, Some(failure)) => Err(failure),
                (Ok(answer), None) => Ok(answer),
                (Err(error), None) => Err(self.failure(what, error)),
            },
            failure = self.host().failing() => Err(failure),
            () = self.abandoned() => Err(self.failure(what, ServiceError::TransportClosed)),
            () = interrupt() => Err(Failure::interrupted()),
            limit = self.host().silence(self.timeout) => Err(Failure::connection(format_args!(
                "{what}: the server says nothing for {} s", limit.as_secs()
            )).help("`--timeout` lets it be silent for longer")),
        }
    }

    /// Sends a request and waits for its answer; one that is not waited for any more is cancelled.
    ///
    /// # Errors
    ///
    /// Those of [`Session::answer`], but for an error that the server answers with.
    pub(crate) async fn request(
        &self,
        what: &str,
        request: ClientRequest,
        extras: Extras,
    ) -> Result<Result<ServerResult, ErrorData>, Failure> {
        let mut options = PeerRequestOptions::no_options();
        options.meta = Some(self.meta(extras));
        let sent = self.peer().send_request_with_option(request, options);
        let handle = self.answer(what, sent).await?;
        let id = handle.id.clone();
        let mut answered = false;
        let answer = self
            .answer(what, async {
                let answer = handle.await_response().await;
                answered = true;
                match answer {
                    Ok(result) => Ok(Ok(result)),
                    Err(ServiceError::McpError(error)) => Ok(Err(error)),
                    Err(error) => Err(error),
                }
            })
            .await;
        if !answered {
            let cancelled = CancelledNotificationParam::new(Some(id), Some("the user has had enough".to_owned()));
            let _ = tokio::time::timeout(LAST_WORDS, self.peer().notify_cancelled(cancelled)).await;
        }
        answer
    }

    /// Sends a request whose answer hardly matters, because the command is about to end.
    pub(crate) async fn last_words(&self, request: ClientRequest, extras: Extras) {
        let mut options = PeerRequestOptions::with_timeout(LAST_WORDS);
        options.meta = Some(self.meta(extras));
        if let Ok(handle) = self.peer().send_request_with_option(request, options).await {
            let _ = handle.await_response().await;
        }
    }

    /// What goes with a request beside what the client adds itself.
    fn meta(&self, extras: Extras) -> RequestMetaObject {
        let mut meta = RequestMetaObject::new();
        if self.is_legacy() {
            return meta;
        }
        meta.set_log_level(self.host().level());
        if extras.tasks {
            let mut capabilities = self.host().capabilities();
            let extensions = capabilities.extensions.get_or_insert_default();
            extensions.insert(TASKS_EXTENSION_ID.to_owned(), Default::default());
            meta.set_client_capabilities(capabilities);
        }
        meta
    }

    /// Asks for the log, where that is a request of its own. A server without a log is none the worse for it.
    #[expect(deprecated, reason = "servers of today log")]
    pub(crate) async fn ask_for_log(&self) {
        if self.is_legacy() && self.server().capabilities.logging.is_some() {
            let level = rmcp::model::SetLevelRequestParams::new(self.host().level());
            let _ = tokio::time::timeout(LAST_WORDS, self.peer().set_level(level)).await;
        }
    }

    /// Whether the server shook hands, as revisions before 2026-07-28 do.
    pub(crate) fn is_legacy(&self) -> bool {
        self.server().protocol_version.has_initialize()
    }

    /// Whether there may be tasks as 2025-11-25 has them.
    pub(crate) fn has_legacy_tasks(&self) -> bool {
        self.server().protocol_version == ProtocolVersion::V_2025_11_25
    }

    /// Lets some time pass.
    ///
    /// # Errors
    ///
    /// Those of [`Session::answer`].
    pub(crate) async fn pause(&self, time: Duration) -> Result<(), Failure> {
        self.answer("", async {
            tokio::time::sleep(time).await;
            Ok(())
        })
        .await
    }

    /// Answers what the server asks before it goes on.
    ///
    /// # Errors
    ///
    /// We cannot; the user has had enough.
    pub(crate) async fn fulfil(&self, what: &str, asked: InputRequests) -> Result<InputResponses, Failure> {
        let answered = async { self.host().fulfil(asked).await.map_err(ServiceError::McpError) };
        self.answer(what, answered).await
    }

    /// Ends when a program has ended while the user is still asked: the client would wait for the answer for seconds.
    async fn abandoned(&self) {
        while !(self.host().is_asking() && self.witness.ended().is_some()) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The tools; none where the server says that it has none.
    pub(crate) async fn tools(&self) -> Result<Vec<Tool>, Failure> {
        match self.server().capabilities.tools {
            Some(_) => self.answer("tools/list", self.peer().list_all_tools()).await,
            None => Ok(Vec::new()),
        }
    }

    pub(crate) async fn prompts(&self) -> Result<Vec<Prompt>, Failure> {
        match self.server().capabilities.prompts {
            Some(_) => self.answer("prompts/list", self.peer().list_all_prompts()).await,
            None => Ok(Vec::new()),
        }
    }

    pub(crate) async fn resources(&self) -> Result<Vec<Resource>, Failure> {
        match self.server().capabilities.resources {
            Some(_) => self.answer("resources/list", self.peer().list_all_resources()).await,
            None => Ok(Vec::new()),
        }
    }

    pub(crate) async fn templates(&self) -> Result<Vec<ResourceTemplate>, Failure> {
        match self.server().capabilities.resources {
            Some(_) => {
                let list = async {
                    match self.peer().list_all_resource_templates().await {
                        // There are servers with resources that do not know the word.
                        Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                            Ok(Vec::new())
                        }
                        listed => listed,
                    }
                };
                self.answer("resources/templates/list", list).await
            }
            None => Ok(Vec::new()),
        }
    }
}

/// Prints what a server sent, as JSON.
///
/// # Errors
///
/// It cannot be written as JSON, which does not happen.
pub(crate) fn print_raw(result: &impl serde::Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(result).map_err(|error| Failure::connection(error.to_string()))?;
    crate::stdout::outln!("{json}");
    Ok(())
}
