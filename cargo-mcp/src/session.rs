//! A connection for the time of one command: it ends with the command, on Ctrl-C, and when the server says nothing for too long.

use std::{sync::Arc, time::Duration};

use rmcp::{
    RoleClient, ServiceError,
    model::{Prompt, Resource, ResourceTemplate, ServerCapabilities, ServerPeerInfo, Tool},
    service::Peer,
};

use crate::{
    client::{Connection, outcome, refused, stray, witnessed},
    failure::Failure,
    host::{Host, HostArgs},
    program::Witness,
    target::{Target, TargetArgs},
};

/// How long a server may take to end.
const FAREWELL: Duration = Duration::from_secs(8);

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

/// Connects, works, and takes leave whatever came of it.
///
/// # Errors
///
/// Those of the connection and of the work; Ctrl-C.
pub(crate) async fn with<T>(
    args: &SessionArgs,
    server: Option<&str>,
    host: &HostArgs,
    work: impl AsyncFnOnce(&Session) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let target = args.target.resolve(server)?;
    let host = Arc::new(Host::new(host, args.target.revision)?);
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
    let _ = session.connection.close_with_timeout(FAREWELL).await;
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
            () = interrupt() => Err(Failure::interrupted()),
            limit = self.host().silence(self.timeout) => Err(Failure::connection(format_args!(
                "{what}: the server says nothing for {} s", limit.as_secs()
            )).help("`--timeout` lets it be silent for longer")),
        }
    }

    fn failure(&self, what: &str, error: ServiceError) -> Failure {
        let gone = matches!(error, ServiceError::TransportClosed | ServiceError::TransportSend(_));
        let failure = match (gone, self.witness.ended()) {
            (true, Some(status)) => Failure::connection(format_args!("{what}: the server ended ({})", outcome(status))),
            (true, None) => Failure::connection(format_args!("{what}: the server closed the connection")),
            (false, _) => return refused(what, error),
        };
        match self.witness.stray() {
            Some(line) => failure.help(stray(&line)),
            None => failure.help("what it wrote to stderr stands above, if anything"),
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
            Some(_) => self.answer("resources/templates/list", self.peer().list_all_resource_templates()).await,
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
    anstream::println!("{json}");
    Ok(())
}
