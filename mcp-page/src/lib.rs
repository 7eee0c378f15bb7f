//! The pages of [MCP Apps](https://modelcontextprotocol.io/extensions/apps/overview): what identifies them, the origins that
//! they may use, and their text, into which the files beside them are bundled.
//!
//! The macro `#[ui]` of `mcp-runtime` bundles pages at compile time. A debug build that `cargo mcp dev` has started bundles
//! them whenever they are read.

mod bundle;
mod policy;
mod scan;

pub use self::{
    bundle::{Bundle, bundle},
    policy::{Policy, Rejected, Use, is_origin},
};

/// The name of the extension.
pub const EXTENSION: &str = "io.modelcontextprotocol/ui";
/// The scheme of the URIs of pages.
pub const SCHEME: &str = "ui://";
/// The media type of pages.
pub const MEDIA_TYPE: &str = "text/html;profile=mcp-app";
/// The source of the script that the runtime replaces with the bridge.
pub const BRIDGE: &str = "mcp-runtime:bridge";
/// The environment variable that `cargo mcp dev` sets, for builds and for the server. A build without debug assertions ignores it.
pub const DEV_VARIABLE: &str = "MCP_RUNTIME_DEV_PAGES";
