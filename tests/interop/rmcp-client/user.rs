//! The client's half of `examples/everything`: its roots, and the notifications that it receives.

#![expect(deprecated, reason = "2026-07-28 deprecates logging and roots")]

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientConfig, JsonObject, ListRootsResult, LoggingMessageNotificationParam, ProgressNotificationParam,
        ResourceUpdatedNotificationParam, Root, RootsCapabilities, ServerNotification,
    },
    service::{NotificationContext, RequestContext, Subscription},
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// Answers requests for roots, and records notifications.
pub(crate) struct User {
    config: ClientConfig,
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) roots: Vec<Root>,
    pub(crate) progress: Vec<ProgressNotificationParam>,
    /// The level and the data of log messages.
    pub(crate) messages: Vec<Value>,
    changes: VecDeque<String>,
}

impl User {
    /// Adds the capabilities of the user to a configuration.
    pub(crate) fn new(mut config: ClientConfig) -> Self {
        let mut roots = RootsCapabilities::default();
        roots.list_changed = Some(true);
        config.capabilities.roots = Some(roots);
        let tasks = ("io.modelcontextprotocol/tasks".to_owned(), JsonObject::new());
        config.capabilities.extensions = Some([tasks].into());
        Self { config, state: Mutex::default() }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, change: impl Into<String>) {
        self.state().changes.push_back(change.into());
    }
}

impl ClientHandler for User {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.state().roots.clone()))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.state().progress.push(params);
    }

    async fn on_logging_message(&self, params: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        self.state().messages.push(json!({"level": params.level, "data": params.data}));
    }

    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.changed(format!("notifications/resources/updated {}", params.uri));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed("notifications/tools/list_changed");
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed("notifications/prompts/list_changed");
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed("notifications/resources/list_changed");
    }
}

/// Where notifications about changes arrive.
pub(crate) enum Watcher<'a> {
    Handler(&'a User),
    Subscription(Box<Subscription>),
}

impl Watcher<'_> {
    /// Returns the method of the next notification and, if it has one, its URI.
    ///
    /// # Errors
    ///
    /// Returns a description if no notification arrives before the deadline.
    pub(crate) async fn next(&mut self, deadline: Duration) -> Result<String, String> {
        let next = async {
            match self {
                Watcher::Handler(user) => loop {
                    if let Some(change) = user.state().changes.pop_front() {
                        return Ok(change);
                    }
                    sleep(Duration::from_millis(2)).await;
                },
                Watcher::Subscription(subscription) => match subscription.next().await {
                    Ok(Some(notification)) => Ok(describe(&notification)),
                    other => Err(format!("the subscription ended: {other:?}")),
                },
            }
        };
        timeout(deadline, next).await.map_err(|_| format!("no notification arrived within {deadline:?}"))?
    }

    /// Ends a subscription.
    ///
    /// # Errors
    ///
    /// Returns a description if the cancellation cannot be sent.
    pub(crate) async fn close(self) -> Result<(), String> {
        match self {
            Watcher::Handler(_) => Ok(()),
            Watcher::Subscription(mut subscription) => {
                subscription.cancel().await.map_err(|error| format!("ending a subscription: {error}"))
            }
        }
    }
}

fn describe(notification: &ServerNotification) -> String {
    let value = serde_json::to_value(notification).unwrap_or_default();
    let words = [&value["method"], &value["params"]["uri"]];
    words.into_iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
}
