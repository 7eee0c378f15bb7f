//! The directories in which programs keep their configuration, as determined by the environment.

use std::path::PathBuf;

use crate::failure::Failure;

/// The directory that a path is relative to.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Base {
    /// The home directory.
    Home,
    /// The data of desktop programs: `~/.config`, `~/Library/Application Support`, `%APPDATA%`.
    Data,
    /// `~/.config`, on macOS too, or `%APPDATA%`.
    Config,
}

/// A user's directories.
#[derive(Clone, Debug)]
pub(crate) struct Directories {
    /// The operating system, as in [`std::env::consts::OS`].
    system: &'static str,
    home: PathBuf,
    lookup: fn(&str) -> Option<PathBuf>,
}

impl Directories {
    /// Returns the directories of the current user.
    ///
    /// # Errors
    ///
    /// Fails if the home directory is unknown.
    pub(crate) fn current() -> Result<Self, Failure> {
        let home = std::env::home_dir().filter(|home| home.is_absolute());
        let home = home.ok_or_else(|| Failure::usage("cannot determine the home directory: `HOME` is not set"))?;
        Ok(Self { system: std::env::consts::OS, home, lookup: |name| std::env::var_os(name).map(PathBuf::from) })
    }

    #[cfg(test)]
    pub(crate) fn of(system: &'static str, home: &str, lookup: fn(&str) -> Option<PathBuf>) -> Self {
        Self { system, home: home.into(), lookup }
    }

    /// Returns an environment variable that contains an absolute path. As in the XDG specification, relative paths are
    /// ignored.
    pub(crate) fn variable(&self, name: &str) -> Option<PathBuf> {
        (self.lookup)(name).filter(|path| path.has_root())
    }

    pub(crate) fn base(&self, base: Base) -> PathBuf {
        match (base, self.system) {
            (Base::Home, _) => self.home.clone(),
            (Base::Data, "macos") => self.home.join("Library/Application Support"),
            (Base::Config, "macos") => self.home.join(".config"),
            (_, "windows") => self.variable("APPDATA").unwrap_or_else(|| self.home.join("AppData/Roaming")),
            _ => self.variable("XDG_CONFIG_HOME").unwrap_or_else(|| self.home.join(".config")),
        }
    }
}
