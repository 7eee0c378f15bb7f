//! The tools and prompts of a server.

use std::{fmt, time::Duration};

use rmcp::model::{ClientConfig, Prompt, Tool};

use crate::{
    client::{connect, identity, request_failure},
    failure::Failure,
    target::Target,
};

/// How long to wait for the server to exit.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) tools: Vec<Tool>,
    pub(super) prompts: Vec<Prompt>,
}

impl Contents {
    /// Starts a server and requests its lists.
    ///
    /// # Errors
    ///
    /// Fails if the server does not start or does not respond in time.
    pub(super) async fn ask(target: &Target, timeout: Duration) -> Result<Self, Failure> {
        let config = ClientConfig::new(Default::default(), identity());
        let mut server = connect(target, None, config, timeout).await.map_err(|failure| {
            failure.help("a bundle lists the tools of its server; set the environment variables that it needs to start")
        })?;
        let lists = async {
            let info = server.peer_info();
            let has = |capability: fn(&rmcp::model::ServerCapabilities) -> bool| {
                info.as_ref().is_some_and(|info| capability(&info.capabilities))
            };
            let mut contents = Self::default();
            if has(|capabilities| capabilities.tools.is_some()) {
                contents.tools = server.list_all_tools().await.map_err(|error| request_failure("tools/list", error))?;
            }
            if has(|capabilities| capabilities.prompts.is_some()) {
                contents.prompts =
                    server.list_all_prompts().await.map_err(|error| request_failure("prompts/list", error))?;
            }
            Ok(contents)
        };
        let contents = tokio::time::timeout(timeout, lists).await.unwrap_or_else(|_| {
            Err(Failure::connection(format_args!(
                "{target} did not list its tools and prompts within {} s",
                timeout.as_secs()
            ))
            .help("`--connect-timeout` extends the limit"))
        });
        let _ = server.close_with_timeout(SHUTDOWN_TIMEOUT).await;
        contents
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
        write!(f, "{} and {}", number(self.tools.len(), "tool"), number(self.prompts.len(), "prompt"))
    }
}
