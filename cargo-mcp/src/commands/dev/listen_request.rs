//! `subscriptions/listen` requests. The proxy notifies their clients of new builds, even if the server does not
//! support the requests.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    message::{Message, RequestId, SUBSCRIPTION_ID, array_elements, member, notification, replace_part},
    snapshot::Capability,
};

/// The notification that acknowledges a `subscriptions/listen` request and lists the accepted notifications.
pub(super) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// The request's method.
pub(super) const LISTEN: &str = "subscriptions/listen";

/// A `subscriptions/listen` request.
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
