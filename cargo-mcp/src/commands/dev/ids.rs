//! Numbers that identify builds and server processes.

/// Identifies a successful build. Each one produced a different executable.
pub(super) type BuildId = u64;

/// Identifies a server process. A newer process has a greater number.
pub(super) type Generation = u64;
