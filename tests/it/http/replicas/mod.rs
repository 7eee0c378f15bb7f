//! Several servers that share one backend: any of them takes any message of any session.

mod announcements;
mod changes;
mod legacy;
mod names;
mod rate_limits;
mod readiness;
mod renewals;
mod sessions;
mod streams;
mod tasks;

use std::{sync::Arc, time::Duration};

use mcp_runtime::{
    HttpOptions, Server,
    backend::{MemoryBackend, RecordCondition, Records, Timestamp},
};
use mcp_tests::backend::{Health, UnreliableBackend};
use tokio::runtime::{Builder, Runtime};

use super::{
    Gate,
    client::{Endpoint, Options},
    server,
};

/// The lease of the replicas of a [`Cluster`].
pub(super) const LEASE: Duration = Duration::from_secs(1);

/// Servers that share a backend, each in a runtime of its own.
#[derive(Debug)]
pub(super) struct Cluster {
    replicas: Vec<Replica>,
}

#[derive(Debug)]
struct Replica {
    /// The state of the functions that wait for the test.
    gate: Arc<Gate>,
    /// The replica's connection to the backend.
    backend: Arc<UnreliableBackend>,
    endpoint: Endpoint,
    runtime: Option<Runtime>,
}

impl Cluster {
    /// Starts replicas of the server that all tests of HTTP use.
    pub(super) async fn start(replicas: usize) -> Self {
        Self::start_with(replicas, HttpOptions::default, |server| server).await
    }

    /// Starts replicas with other options, and with changes to the server.
    pub(super) async fn start_with<O: Into<Options>>(
        replicas: usize,
        options: impl Fn() -> O,
        configure: impl Fn(Server) -> Server,
    ) -> Self {
        Self::start_on(1, replicas, options, configure).await
    }

    /// Starts replicas with this number of threads each.
    pub(super) async fn start_on<O: Into<Options>>(
        threads: usize,
        replicas: usize,
        options: impl Fn() -> O,
        configure: impl Fn(Server) -> Server,
    ) -> Self {
        Self::start_sharing(&UnreliableBackend::default(), threads, replicas, options, configure).await
    }

    /// Starts replicas of which each has a view of a backend.
    pub(super) async fn start_sharing<O: Into<Options>>(
        shared: &UnreliableBackend,
        threads: usize,
        replicas: usize,
        options: impl Fn() -> O,
        configure: impl Fn(Server) -> Server,
    ) -> Self {
        let mut started = Vec::new();
        for _ in 0..replicas {
            let (gate, server) = server();
            let backend = Arc::new(shared.other_process());
            let server = configure(server.backend(Arc::clone(&backend)).lease(LEASE));
            let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap();
            let options: Options = options().into();
            let endpoint = runtime.spawn(Endpoint::start(server, options)).await.unwrap();
            started.push(Replica { gate, backend, endpoint, runtime: Some(runtime) });
        }
        Self { replicas: started }
    }

    /// Returns a replica.
    pub(super) fn at(&self, replica: usize) -> &Endpoint {
        &self.replicas[replica].endpoint
    }

    /// Returns the state of the functions of a replica that wait for the test.
    pub(super) fn gate(&self, replica: usize) -> &Gate {
        &self.replicas[replica].gate
    }

    /// Sets how the backend responds to a replica.
    pub(super) fn set_backend(&self, replica: usize, health: Health) {
        self.replicas[replica].backend.set_health(health);
    }

    /// Deletes the lease of the replica that has sent a request with this id, as if it had not renewed it in time.
    pub(super) async fn expire_lease(&self, request: u64) {
        let key = format!("mcp/1/replica/{}", request >> 32);
        assert!(self.replicas[0].backend.reliable().delete(&key, RecordCondition::Always).await.unwrap());
    }

    /// Returns the backend, which never fails.
    pub(super) fn backend(&self) -> &MemoryBackend {
        self.replicas[0].backend.reliable()
    }

    /// Returns the size of the record of a session with its key, or 0 if there is none.
    pub(super) async fn session_size(&self, id: &str) -> usize {
        let key = format!("mcp/1/session/{id}");
        let found = self.replicas[0].backend.reliable().get(&key).await.unwrap();
        found.map_or(0, |record| key.len() + record.value.len())
    }

    /// Keeps a replica with one thread from running for some time, like `SIGSTOP`, during which `meanwhile` runs.
    pub(super) async fn stop_for<T>(&self, replica: usize, time: Duration, meanwhile: impl Future<Output = T>) -> T {
        let runtime = self.replicas[replica].runtime.as_ref().expect("the replica runs");
        let (stopped, has_stopped) = tokio::sync::oneshot::channel();
        let stop = runtime.spawn(async move {
            let _ = stopped.send(());
            std::thread::sleep(time);
        });
        has_stopped.await.unwrap();
        let result = meanwhile.await;
        stop.await.unwrap();
        result
    }

    /// Returns the time of the backend.
    pub(super) async fn now(&self) -> Timestamp {
        self.replicas[0].backend.now().await.unwrap()
    }

    /// Returns how many operations of the backend a replica has attempted.
    pub(super) fn operations(&self, replica: usize) -> usize {
        self.replicas[replica].backend.operations()
    }

    /// Begins to shut a replica down, as after a signal.
    pub(super) fn stop(&mut self, replica: usize) {
        self.replicas[replica].endpoint.stop();
    }

    /// Waits until a replica that was stopped has ended.
    pub(super) async fn stopped(&self, replica: usize) {
        super::client::until(|| self.replicas[replica].endpoint.has_ended()).await;
    }

    /// Stops a replica without any notice, like `SIGKILL`: its connections break, and its lease expires later.
    pub(super) fn kill(&mut self, replica: usize) {
        if let Some(runtime) = self.replicas[replica].runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Dropping a runtime is not allowed where a test is running.
        (0..self.replicas.len()).for_each(|replica| self.kill(replica));
    }
}
