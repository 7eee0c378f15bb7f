//! What is shown on stderr while a server works: bars of progress, log messages, remarks.

use std::{
    collections::HashMap,
    io::IsTerminal,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::{
    schema::{plain, typed},
    style::{CARE, DIM, WRONG, tame},
};

/// Stderr, where bars may be drawn while lines are written.
#[derive(Debug)]
pub(crate) struct Console {
    bars: MultiProgress,
    open: Mutex<HashMap<String, ProgressBar>>,
    terminal: bool,
    /// Lines that wait while the terminal is somebody else's.
    held: Mutex<Option<Vec<String>>>,
    /// The status that was shown last.
    last: Mutex<Option<String>>,
}

impl Console {
    pub(crate) fn new() -> Self {
        Self {
            bars: MultiProgress::new(),
            open: Mutex::default(),
            terminal: std::io::stderr().is_terminal(),
            held: Mutex::default(),
            last: Mutex::default(),
        }
    }

    /// Shows how far something is, as a bar in a terminal, and as a line elsewhere.
    pub(crate) fn progress(&self, token: &str, done: f64, total: Option<f64>, message: Option<&str>) {
        if !self.terminal {
            let total = total.map(|total| format!("/{}", plain(total))).unwrap_or_default();
            let message = message.map(|message| format!(" {}", tame(message))).unwrap_or_default();
            return self.line(&format!("progress: {}{total}{message}", plain(done)));
        }
        if self.held().is_some() {
            return;
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = open.entry(token.to_owned()).or_insert_with(|| self.bars.add(bar(total)));
        // A bar has whole steps; a thousand of them are enough for any fraction.
        match total {
            Some(total) if total > 0.0 => bar.set_position((done / total * 1000.0).clamp(0.0, 1000.0) as u64),
            _ => bar.tick(),
        }
        bar.set_message(message.map_or_else(|| plain(done), |message| tame(message).into_owned()));
    }

    /// Shows what is being done, where nobody knows how far it is.
    pub(crate) fn status(&self, of: &str, message: &str) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_deref() != Some(message) {
            *last = Some(message.to_owned());
            match self.terminal {
                true => self.progress(of, 0.0, None, Some(message)),
                false => self.line(&format!("status: {}", tame(message))),
            }
        }
    }

    /// Shows a message of the server's log.
    pub(crate) fn log(&self, level: &str, logger: Option<&str>, data: &serde_json::Value) {
        let style = match level {
            "error" | "critical" | "alert" | "emergency" => WRONG,
            "warning" => CARE,
            _ => DIM,
        };
        let logger = logger.map(|logger| format!(" {logger}")).unwrap_or_default();
        self.line(&format!("{style}{level}{style:#}{}: {}", tame(&logger), tame(&typed(data))));
    }

    /// Writes a line above the bars.
    pub(crate) fn line(&self, line: &str) {
        match &mut *self.held() {
            Some(held) => held.push(line.to_owned()),
            None => self.bars.suspend(|| anstream::eprintln!("{line}")),
        }
    }

    /// Leaves the terminal to somebody else.
    pub(crate) fn hold(&self) {
        self.clear();
        self.held().get_or_insert_default();
    }

    /// Takes the terminal back, and writes what waited.
    pub(crate) fn go_on(&self) {
        let held = self.held().take();
        held.into_iter().flatten().for_each(|line| self.line(&line));
    }

    fn held(&self) -> MutexGuard<'_, Option<Vec<String>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all bars away.
    pub(crate) fn clear(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.drain().for_each(|(_, bar)| bar.finish_and_clear());
        let _ = self.bars.clear();
    }
}

fn bar(total: Option<f64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(_) => (ProgressBar::new(1000), "{bar:30} {percent:>3} %  {wide_msg}"),
        None => (ProgressBar::new_spinner(), "{spinner} {wide_msg}"),
    };
    let bar = match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    };
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
