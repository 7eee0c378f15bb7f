//! The state of a client, from which another server can continue: its session, the requests of servers in it, and its
//! `subscriptions/listen` requests.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::{
    message::{
        Generation, Message, RequestId, SUBSCRIPTION_ID, array_elements, member, notification, parse_string,
        replace_part,
    },
    snapshot::Capability,
};

/// The log levels at which a client receives errors.
const LEVELS_WITH_ERRORS: [&str; 5] = ["debug", "info", "notice", "warning", "error"];

/// The state of a session.
#[derive(Debug, Default)]
pub(super) struct SessionState {
    /// The `initialize` request.
    pub(super) initialize: String,
    pub(super) revision: String,
    /// The names of the capabilities that the client received.
    capabilities: BTreeSet<String>,
    pub(super) is_initialized: bool,
    /// The last successful `logging/setLevel` request.
    log_level: Option<String>,
    /// The successful `resources/subscribe` requests by URI.
    subscriptions: BTreeMap<String, String>,
}

impl SessionState {
    /// Reads the session that an `initialize` request and its result open.
    pub(super) fn open(initialize: String, result: &str) -> Self {
        let capabilities = member(result, "capabilities").and_then(|json| serde_json::from_str(json).ok());
        let capabilities: BTreeMap<String, Value> = capabilities.unwrap_or_default();
        Self {
            initialize,
            revision: member(result, "protocolVersion").and_then(parse_string).unwrap_or_default(),
            capabilities: capabilities.into_keys().collect(),
            ..Self::default()
        }
    }

    /// Records what a successful request changed.
    pub(super) fn update(&mut self, method: &str, request: &str) {
        match method {
            "logging/setLevel" => self.log_level = Some(request.to_owned()),
            "resources/subscribe" => {
                self.subscriptions.insert(string_param(request, "uri").unwrap_or_default(), request.to_owned());
            }
            "resources/unsubscribe" => {
                self.subscriptions.remove(&string_param(request, "uri").unwrap_or_default());
            }
            _ => {}
        }
    }

    /// Returns the requests that bring a new session to this state, and their methods.
    pub(super) fn requests(&self) -> Vec<(&'static str, String)> {
        let level = self.log_level.iter().map(|request| ("logging/setLevel", request.clone()));
        let subscriptions = self.subscriptions.values().map(|request| ("resources/subscribe", request.clone()));
        level.chain(subscriptions).collect()
    }

    /// Returns whether the client receives log messages about errors.
    pub(super) fn receives_errors(&self) -> bool {
        let level = self.log_level.as_deref().and_then(|request| string_param(request, "level"));
        self.is_initialized
            && self.capabilities.contains("logging")
            && level.is_none_or(|level| LEVELS_WITH_ERRORS.contains(&&*level))
    }

    /// Returns the notifications for a new build: changed lists, and the resources, whose content may have changed.
    pub(super) fn change_notifications(&self, changed: &BTreeSet<Capability>) -> Vec<String> {
        let declared = changed.iter().filter(|capability| self.capabilities.contains(capability.name()));
        let lists = declared.map(|capability| notification(&capability.changed_method(), None));
        let updated = |uri: &String| notification("notifications/resources/updated", Some(&json!({"uri": uri})));
        lists.chain(self.subscriptions.keys().map(updated)).collect()
    }

    /// Returns a warning if a new server has other capabilities than the client still uses.
    pub(super) fn capabilities_changed(&self, new: &Self) -> Option<String> {
        let list = |session: &Self| match session.capabilities.iter().cloned().collect::<Vec<_>>().join(", ") {
            names if names.is_empty() => "none".to_owned(),
            names => names,
        };
        let (old, now) = (list(self), list(new));
        (old != now)
            .then(|| format!("the server's capabilities changed from {old} to {now}; reconnect the client to use them"))
    }
}

fn string_param(request: &str, name: &str) -> Option<String> {
    parse_string(Message::parse(request)?.param(name)?)
}

/// Formats a log message about a failed build for clients.
pub(super) fn build_failure_notification(error: &str) -> String {
    let params = json!({"level": "error", "logger": "cargo mcp dev", "data": format!("build failed: {error}")});
    notification("notifications/message", Some(&params))
}

/// The requests of servers that the client has not answered. Several servers may use the same id, so clashing ids are
/// replaced.
#[derive(Debug, Default)]
pub(super) struct ServerRequests {
    pending: HashMap<RequestId, PendingRequest>,
    /// The client's ids of requests whose server is gone. A late response must not reach another server.
    abandoned: HashSet<RequestId>,
    /// The number of ids that were replaced.
    replaced: u64,
}

#[derive(Debug)]
struct PendingRequest {
    server: Generation,
    /// The id that the server sent.
    server_id: String,
    /// The id that the client received.
    client_id: String,
    progress_token: Option<RequestId>,
}

impl ServerRequests {
    /// Records a request and returns the id to send to the client.
    pub(super) fn add(&mut self, server: Generation, id: &str, progress_token: Option<&str>) -> String {
        let is_taken = |requests: &Self, id: &str| {
            RequestId::parse(id).is_none_or(|id| requests.pending.contains_key(&id) || requests.abandoned.contains(&id))
        };
        let mut client_id = id.to_owned();
        while is_taken(self, &client_id) {
            self.replaced += 1;
            client_id = format!("\"cargo-mcp-{server}-{}\"", self.replaced);
        }
        if let Some(key) = RequestId::parse(&client_id) {
            let progress_token = progress_token.and_then(RequestId::parse);
            let request =
                PendingRequest { server, server_id: id.to_owned(), client_id: client_id.clone(), progress_token };
            self.pending.insert(key, request);
        }
        client_id
    }

    /// Removes the request that the client responds to. Returns its server and the server's id, or `None` if it is
    /// unknown or its server is gone.
    pub(super) fn finish(&mut self, client_id: &str) -> Option<(Generation, String)> {
        let key = RequestId::parse(client_id)?;
        self.abandoned.remove(&key);
        self.pending.remove(&key).map(|request| (request.server, request.server_id))
    }

    /// Removes a request that its server cancelled. Returns the client's id.
    pub(super) fn cancel(&mut self, server: Generation, server_id: &str) -> Option<String> {
        let id = RequestId::parse(server_id)?;
        let matches = |request: &PendingRequest| {
            request.server == server && RequestId::parse(&request.server_id).as_ref() == Some(&id)
        };
        let key = self.pending.iter().find(|(_, request)| matches(request)).map(|(key, _)| key.clone())?;
        self.abandoned.insert(key.clone());
        self.pending.remove(&key).map(|request| request.client_id)
    }

    /// Returns the server that sent a progress token.
    pub(super) fn progress_receiver(&self, token: &str) -> Option<Generation> {
        let token = RequestId::parse(token)?;
        let mut requests = self.pending.values();
        requests.find(|request| request.progress_token.as_ref() == Some(&token)).map(|request| request.server)
    }

    /// Removes the requests of a server that is gone. Returns the client's ids.
    pub(super) fn abandon(&mut self, server: Generation) -> Vec<String> {
        let removed: Vec<_> = self.pending.extract_if(|_, request| request.server == server).collect();
        self.abandoned.extend(removed.iter().map(|(key, _)| key.clone()));
        let mut ids: Vec<_> = removed.into_iter().map(|(_, request)| request.client_id).collect();
        ids.sort();
        ids
    }
}

/// The notification that acknowledges a `subscriptions/listen` request and lists the accepted notifications.
pub(super) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// The request's method.
pub(super) const LISTEN: &str = "subscriptions/listen";

/// A `subscriptions/listen` request. The proxy notifies its client of new builds, even if the server does not support
/// the request.
#[derive(Debug)]
pub(super) struct ListenRequest {
    id: Value,
    /// The capabilities whose list changes were requested.
    capabilities: BTreeSet<Capability>,
    /// The URIs of the resources that were subscribed to, as JSON.
    resources: Vec<String>,
    is_acknowledged: bool,
}

impl ListenRequest {
    /// Reads the filter of a request.
    pub(super) fn parse(id: &str, message: &Message<'_>) -> Self {
        let filter = message.param("notifications").unwrap_or("{}");
        let is_requested = |capability: &Capability| member(filter, &capability.filter_member()) == Some("true");
        let resources = member(filter, "resourceSubscriptions").and_then(array_elements).unwrap_or_default();
        Self {
            id: serde_json::from_str(id).unwrap_or_default(),
            capabilities: Capability::ALL.into_iter().filter(is_requested).collect(),
            resources: resources.into_iter().map(str::to_owned).collect(),
            is_acknowledged: false,
        }
    }

    /// Returns whether a notification belongs to this request.
    pub(super) fn owns(&self, message: &Message<'_>) -> bool {
        message.meta(SUBSCRIPTION_ID).and_then(RequestId::parse) == RequestId::parse(&self.id.to_string())
    }

    /// Returns the acknowledgement for a server that does not know the method, or `None` if the client has received
    /// one.
    pub(super) fn acknowledge(&mut self) -> Option<String> {
        if std::mem::replace(&mut self.is_acknowledged, true) {
            return None;
        }
        let params = json!({"_meta": self.meta(), "notifications": self.with_list_changes(Map::new())});
        Some(notification(ACKNOWLEDGED, Some(&params)))
    }

    /// Adds list changes to the server's acknowledgement, or returns `None` if the client has received one.
    pub(super) fn extend_acknowledgement(&mut self, text: &str, message: &Message<'_>) -> Option<String> {
        if std::mem::replace(&mut self.is_acknowledged, true) {
            return None;
        }
        let Some(filter) = message.param("notifications") else { return Some(text.to_owned()) };
        let extended = self.with_list_changes(serde_json::from_str(filter).unwrap_or_default());
        Some(replace_part(text, filter, &Value::Object(extended).to_string()))
    }

    /// Returns the notifications for a new build: changed lists, and the resources, whose content may have changed.
    pub(super) fn change_notifications(&self, changed: &BTreeSet<Capability>) -> Vec<String> {
        if !self.is_acknowledged {
            return Vec::new();
        }
        let lists = changed.intersection(&self.capabilities);
        let lists = lists.map(|list| notification(&list.changed_method(), Some(&json!({"_meta": self.meta()}))));
        let uri = |uri: &String| serde_json::from_str::<Value>(uri).unwrap_or_default();
        let resources = self.resources.iter().map(|resource| {
            let params = json!({"_meta": self.meta(), "uri": uri(resource)});
            notification("notifications/resources/updated", Some(&params))
        });
        lists.chain(resources).collect()
    }

    /// Returns the response, which ends the subscription.
    pub(super) fn response(&self) -> String {
        json!({"jsonrpc": "2.0", "id": self.id, "result": {"resultType": "complete", "_meta": self.meta()}}).to_string()
    }

    fn meta(&self) -> Value {
        json!({SUBSCRIPTION_ID: self.id})
    }

    fn with_list_changes(&self, mut filter: Map<String, Value>) -> Map<String, Value> {
        let members = self.capabilities.iter().map(|list| (list.filter_member(), Value::Bool(true)));
        filter.extend(members);
        filter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_reach_the_server_that_sent_the_request() {
        let mut requests = ServerRequests::default();
        assert_eq!(requests.add(1, "0", Some("5")), "0");
        let replaced = requests.add(2, "0", None);
        assert_ne!(replaced, "0");
        assert_eq!(requests.progress_receiver("5"), Some(1));
        assert_eq!(requests.finish(&replaced), Some((2, "0".to_owned())));
        assert_eq!(requests.finish("0"), Some((1, "0".to_owned())));
        assert_eq!(requests.finish("0"), None);
        assert_eq!(requests.add(2, "0", None), "0", "a free id is kept");
    }

    #[test]
    fn errors_are_for_clients_with_a_level_that_includes_them() {
        let result = r#"{"protocolVersion":"2025-11-25","capabilities":{"logging":{}}}"#;
        let levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
        for (index, level) in levels.into_iter().enumerate() {
            let mut session = SessionState { is_initialized: true, ..SessionState::open("{}".to_owned(), result) };
            assert!(session.receives_errors(), "without a level");
            session.update("logging/setLevel", &format!(r#"{{"params":{{"level":"{level}"}}}}"#));
            assert_eq!(session.receives_errors(), index < 5, "{level}");
        }
    }

    #[test]
    fn late_responses_do_not_reach_another_server() {
        let mut requests = ServerRequests::default();
        requests.add(1, "7", None);
        assert_eq!(requests.abandon(1), ["7"]);
        let replaced = requests.add(2, "7", None);
        assert_ne!(replaced, "7");
        assert_eq!(requests.finish("7"), None);
        assert_eq!(requests.cancel(2, "7"), Some(replaced));
        assert_eq!(requests.add(3, "7", None), "7", "the late response freed the id");
        // The client may have responded before it received the cancellation.
        requests.add(1, "8", None);
        assert_eq!(requests.cancel(1, "8").as_deref(), Some("8"));
        assert_ne!(requests.add(2, "8", None), "8");
    }
}
