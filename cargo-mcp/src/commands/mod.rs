//! One module per subcommand: its arguments and its implementation.

pub(crate) mod app;
pub(crate) mod bundle;
pub(crate) mod call;
pub(crate) mod check;
pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod dev;
pub(crate) mod inspect;
pub(crate) mod install;
pub(crate) mod list;
pub(crate) mod lock;
pub(crate) mod login;
pub(crate) mod new;
pub(crate) mod prompt;
pub(crate) mod read;
pub(crate) mod types;
pub(crate) mod uninstall;
