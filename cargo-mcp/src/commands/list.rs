//! `cargo mcp list`: what a server offers.

use rmcp::model::ClientConfig;

use crate::{
    client::{connect, identity, refused},
    failure::Failure,
    target::TargetArgs,
};

/// Show the tools, resources and prompts of a server
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A package of this workspace, or a URL; without it the only server here
    server: Option<String>,
    #[command(flatten)]
    target: TargetArgs,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let target = args.target.resolve(args.server.as_deref())?;
    let mut config = ClientConfig::new(Default::default(), identity());
    if let Some(revision) = args.target.revision {
        config = config.with_protocol_version(revision.into());
    }
    let client = connect(&target, args.target.revision, config, args.target.connect_timeout()).await?;
    for tool in client.list_all_tools().await.map_err(|error| refused("tools/list", error))? {
        anstream::println!("{}", tool.name);
    }
    Ok(())
}
