//! What a server offers, as it says itself.

use std::{fmt, time::Duration};

use rmcp::model::{ClientConfig, Prompt, Tool};

use crate::{
    client::{connect, identity, refused},
    failure::Failure,
    target::Target,
};

/// How long a server may take to end.
const FAREWELL: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) tools: Vec<Tool>,
    pub(super) prompts: Vec<Prompt>,
}

impl Contents {
    /// Asks a server.
    ///
    /// # Errors
    ///
    /// It does not start, or does not answer in time.
    pub(super) async fn ask(target: &Target, patience: Duration) -> Result<Self, Failure> {
        let config = ClientConfig::new(Default::default(), identity());
        let mut server = connect(target, None, config, patience).await.map_err(|failure| {
            failure.help("a bundle lists the tools of its server: set the variables that the server needs to start")
        })?;
        let asked = async {
            let info = server.peer_info();
            let has = |capability: fn(&rmcp::model::ServerCapabilities) -> bool| {
                info.as_ref().is_some_and(|info| capability(&info.capabilities))
            };
            let mut contents = Self::default();
            if has(|capabilities| capabilities.tools.is_some()) {
                contents.tools = server.list_all_tools().await.map_err(|error| refused("tools/list", error))?;
            }
            if has(|capabilities| capabilities.prompts.is_some()) {
                contents.prompts = server.list_all_prompts().await.map_err(|error| refused("prompts/list", error))?;
            }
            Ok(contents)
        };
        let contents = tokio::time::timeout(patience, asked).await.unwrap_or_else(|_| {
            Err(Failure::connection(format_args!(
                "{target} does not list what it offers within {} s",
                patience.as_secs()
            ))
            .help("`--connect-timeout` gives it longer"))
        });
        let _ = server.close_with_timeout(FAREWELL).await;
        contents
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
        write!(f, "{} and {}", number(self.tools.len(), "tool"), number(self.prompts.len(), "prompt"))
    }
}
