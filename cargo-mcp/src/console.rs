//! The output on stderr while a command runs: progress bars, log messages and notes.

use std::{
    collections::HashMap,
    io::IsTerminal,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::{
    arguments::schema::display_value,
    output::{DIM, ERROR, WARNING, errln, escape},
};

/// Stderr, with progress bars below the lines.
#[derive(Debug)]
pub(crate) struct Console {
    bars: MultiProgress,
    active: Mutex<HashMap<String, ProgressBar>>,
    is_terminal: bool,
    /// The lines to print later, while a prompt uses the terminal.
    held: Mutex<Option<Vec<String>>>,
    /// The last status shown.
    last_status: Mutex<Option<String>>,
}

impl Console {
    pub(crate) fn new() -> Self {
        Self {
            bars: MultiProgress::new(),
            active: Mutex::default(),
            is_terminal: std::io::stderr().is_terminal(),
            held: Mutex::default(),
            last_status: Mutex::default(),
        }
    }

    /// Shows progress: as a bar in a terminal, and otherwise as a line.
    pub(crate) fn progress(&self, token: &str, done: f64, total: Option<f64>, message: Option<&str>) {
        if !self.is_terminal {
            let total = total.map(|total| format!("/{total}")).unwrap_or_default();
            let message = message.map(|message| format!(" {message}")).unwrap_or_default();
            return self.line(&format!("progress: {done}{total}{message}"));
        }
        if self.held().is_some() {
            return;
        }
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = active.entry(token.to_owned()).or_insert_with(|| self.bars.add(bar(total)));
        // Bars have integer positions, so the fraction is scaled to 0..=1000.
        match total {
            Some(total) if total > 0.0 => bar.set_position((done / total * 1000.0).clamp(0.0, 1000.0) as u64),
            _ => bar.tick(),
        }
        bar.set_message(message.map_or_else(|| done.to_string(), |message| escape(message).into_owned()));
    }

    /// Shows a status message without progress.
    pub(crate) fn status(&self, token: &str, message: &str) {
        let mut last = self.last_status.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_deref() != Some(message) {
            *last = Some(message.to_owned());
            if self.is_terminal {
                self.progress(token, 0.0, None, Some(message));
            } else {
                self.line(&format!("status: {message}"));
            }
        }
    }

    /// Shows a log message of the server.
    pub(crate) fn log(&self, level: &str, logger: Option<&str>, data: &serde_json::Value) {
        let style = match level {
            "error" | "critical" | "alert" | "emergency" => ERROR,
            "warning" => WARNING,
            _ => DIM,
        };
        let logger = logger.map(|logger| format!(" {logger}")).unwrap_or_default();
        self.line(&format!("{style}{level}{style:#}{logger}: {}", display_value(data)));
    }

    /// Prints a line above the bars.
    pub(crate) fn line(&self, line: &str) {
        match &mut *self.held() {
            Some(held) => held.push(line.to_owned()),
            None => self.bars.suspend(|| errln!("{line}")),
        }
    }

    /// Removes the bars and holds back lines while a prompt uses the terminal.
    pub(crate) fn hold(&self) {
        self.clear();
        self.held().get_or_insert_default();
    }

    /// Prints the lines that were held back.
    pub(crate) fn resume(&self) {
        let held = self.held().take();
        held.into_iter().flatten().for_each(|line| self.line(&line));
    }

    fn held(&self) -> MutexGuard<'_, Option<Vec<String>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes all bars.
    pub(crate) fn clear(&self) {
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        active.drain().for_each(|(_, bar)| bar.finish_and_clear());
        let _ = self.bars.clear();
    }
}

fn bar(total: Option<f64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(_) => (ProgressBar::new(1000), "{bar:30} {percent:>3} %  {wide_msg}"),
        None => (ProgressBar::new_spinner(), "{spinner} {wide_msg}"),
    };
    let bar = bar.with_style(ProgressStyle::with_template(template).expect("the template is valid"));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
