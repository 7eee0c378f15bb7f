//! The arguments of `cargo mcp new`.

use std::path::PathBuf;

/// The default example.
pub(super) const DEFAULT_EXAMPLE: &str = "hello";

const EXAMPLES: &str = "\
Examples:
  cargo mcp new weather                        a server with one tool, in the directory `weather`
  cargo mcp new servers/diary --from notes     a server based on the example `notes`
  cargo mcp new weather --http                 a server that also supports HTTP
  cargo mcp new --list                         list the examples";

/// Create a new server package
///
/// The package is complete: sources, tests, and a README that explains how to connect clients. In a terminal, missing
/// arguments are prompted for.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the package; its last component is the name of the package
    #[arg(value_name = "NAME")]
    pub(super) path: Option<PathBuf>,
    /// Example to start from [default: hello]
    #[arg(long, value_name = "EXAMPLE")]
    pub(super) from: Option<String>,
    /// Activate the feature `http`, so that clients can connect by URL
    #[arg(long)]
    pub(super) http: bool,
    /// List the examples
    #[arg(long, conflicts_with_all = ["path", "from", "http", "runtime_path", "vcs"])]
    pub(super) list: bool,
    /// Directory of `mcp-runtime` [default: in the checkout from which `cargo mcp` was installed]
    #[arg(long, value_name = "PATH")]
    pub(super) runtime_path: Option<PathBuf>,
    /// Initialize a repository [default: git, unless the directory is in a repository]
    #[arg(long, value_name = "VCS", value_enum)]
    pub(super) vcs: Option<Vcs>,
}

/// A version control system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Vcs {
    /// Initialize a git repository
    Git,
    /// Do not initialize a repository
    None,
}
