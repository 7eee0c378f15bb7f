//! Where programs keep their configuration on each system, from the environment alone.

use std::path::PathBuf;

use crate::failure::Failure;

/// The systems whose places differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    Linux,
    Mac,
    Windows,
}

impl System {
    pub(crate) fn here() -> Self {
        match std::env::consts::OS {
            "macos" => Self::Mac,
            "windows" => Self::Windows,
            _ => Self::Linux,
        }
    }
}

/// Which directory a path begins at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Base {
    /// The user's directory.
    Home,
    /// Where desktop programs keep their data: `~/.config`, `~/Library/Application Support`, `%APPDATA%`.
    Data,
    /// `~/.config` on macOS too, and `%APPDATA%` on Windows.
    Config,
}

/// The directories of a user.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    system: System,
    home: PathBuf,
    lookup: fn(&str) -> Option<PathBuf>,
}

impl Places {
    /// Those of the user who runs this.
    ///
    /// # Errors
    ///
    /// The user has no directory.
    pub(crate) fn here() -> Result<Self, Failure> {
        let home = std::env::home_dir().filter(|home| home.is_absolute());
        let home = home.ok_or_else(|| Failure::usage("the user's directory is not known: `HOME` is not set"))?;
        Ok(Self { system: System::here(), home, lookup: |name| std::env::var_os(name).map(PathBuf::from) })
    }

    #[cfg(test)]
    pub(crate) fn of(system: System, home: &str, lookup: fn(&str) -> Option<PathBuf>) -> Self {
        Self { system, home: home.into(), lookup }
    }

    /// A variable that holds an absolute path; a relative one counts as none, as the XDG specification has it.
    pub(crate) fn variable(&self, name: &str) -> Option<PathBuf> {
        (self.lookup)(name).filter(|path| path.has_root())
    }

    pub(crate) fn base(&self, base: Base) -> PathBuf {
        match (base, self.system) {
            (Base::Home, _) => self.home.clone(),
            (Base::Data, System::Mac) => self.home.join("Library/Application Support"),
            (Base::Config, System::Mac) => self.home.join(".config"),
            (Base::Data | Base::Config, System::Linux) => {
                self.variable("XDG_CONFIG_HOME").unwrap_or_else(|| self.home.join(".config"))
            }
            (Base::Data | Base::Config, System::Windows) => {
                self.variable("APPDATA").unwrap_or_else(|| self.home.join("AppData/Roaming"))
            }
        }
    }

    /// Where this program notes what it has installed.
    pub(crate) fn notes(&self) -> PathBuf {
        let state = match self.system {
            System::Linux => self.variable("XDG_STATE_HOME").unwrap_or_else(|| self.home.join(".local/state")),
            System::Mac => self.home.join("Library/Application Support"),
            System::Windows => self.variable("LOCALAPPDATA").unwrap_or_else(|| self.home.join("AppData/Local")),
        };
        state.join("cargo-mcp").join("installed.json")
    }
}
