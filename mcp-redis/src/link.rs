//! The connection for commands, to a server or a cluster, which is opened again when it is lost.

use std::{sync::Arc, time::Duration};

use redis::{RedisError, RedisResult};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, timeout_at},
};

use crate::address::{Address, Connection};

/// The current connection.
pub(crate) struct Link {
    state: watch::Receiver<State>,
    lost: mpsc::Sender<u64>,
}

#[derive(Clone)]
enum State {
    Up(Connection, u64),
    Down(Instant),
}

impl Link {
    /// Opens a connection, and starts a task that replaces it when it is lost. The task ends with the link.
    pub(crate) async fn open(address: Arc<Address>) -> RedisResult<Self> {
        let (send, state) = watch::channel(State::Up(address.connect().await?, 0));
        // Many commands report the same lost connection. The first report is enough.
        let (lost, reports) = mpsc::channel(16);
        tokio::spawn(reconnect(address, send, reports));
        Ok(Self { state, lost })
    }

    /// Returns the connection and its number. Without a connection, waits for a new connection. Returns `None` at the
    /// deadline, or once there has been no connection for `patience`.
    pub(crate) async fn get(&self, deadline: Instant, patience: Duration) -> Option<(Connection, u64)> {
        let mut state = self.state.clone();
        loop {
            let deadline = match &*state.borrow_and_update() {
                State::Up(connection, number) => return Some((connection.clone(), *number)),
                State::Down(since) => deadline.min(*since + patience),
            };
            timeout_at(deadline, state.changed()).await.ok()?.ok()?;
        }
    }

    /// Reports that a connection was lost.
    pub(crate) fn report_lost(&self, number: u64) {
        let _: Result<_, _> = self.lost.try_send(number);
    }
}

async fn reconnect(address: Arc<Address>, state: watch::Sender<State>, mut reports: mpsc::Receiver<u64>) {
    let (mut current, mut opened) = (0, Instant::now());
    while let Some(number) = reports.recv().await {
        if number != current {
            continue;
        }
        state.send_replace(State::Down(Instant::now()));
        pause_after(opened).await;
        let mut backoff = Backoff::default();
        loop {
            match address.connect().await {
                Ok(connection) => {
                    (current, opened) = (current + 1, Instant::now());
                    state.send_replace(State::Up(connection, current));
                    break;
                }
                Err(error) => backoff.failed("cannot connect to Redis", &error).await,
            }
            if state.is_closed() {
                return;
            }
        }
        if backoff.has_failed() {
            tracing::warn!("connected to Redis again");
        }
    }
}

/// The pause before the first repetition, which doubles with every further repetition.
const MIN_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The pauses between attempts to connect, or to execute a command.
#[derive(Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    /// Returns the time to wait before the next attempt: a random part of the pause, so that the processes do not all try
    /// at the same time.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = MAX_PAUSE.min(MIN_PAUSE * (1 << self.0.min(10)));
        self.0 = self.0.saturating_add(1);
        let random = getrandom::u32().unwrap_or(u32::MAX);
        pause.mul_f64(0.5 + 0.5 * f64::from(random) / f64::from(u32::MAX))
    }

    /// Returns whether an attempt has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.0 > 0
    }

    /// Waits before the next attempt to connect. Logs the first failure.
    pub(crate) async fn failed(&mut self, what: &str, error: &RedisError) {
        if !self.has_failed() {
            tracing::warn!("{what}: {error}: retrying");
        }
        sleep(self.next()).await;
    }
}

/// Waits before a connection replaces one that was lost soon after it was opened: the server may be a replica, which refuses
/// every change.
pub(crate) async fn pause_after(opened: Instant) {
    sleep((MIN_PAUSE * 4).saturating_sub(opened.elapsed())).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_one() {
        let mut backoff = Backoff::default();
        assert!(!backoff.has_failed());
        for repetition in 0..100 {
            let longest = MAX_PAUSE.min(MIN_PAUSE * 2_u32.pow(repetition.min(10)));
            let pause = backoff.next();
            assert!((longest / 2..=longest).contains(&pause), "{repetition}: {pause:?}");
            assert!(backoff.has_failed());
        }
    }
}
