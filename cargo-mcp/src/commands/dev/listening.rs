//! Requests that listen: what they want to be told of, which the front can tell them when their server cannot.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    message::{Key, Message, SUBSCRIPTION, elements, member, notification, replace},
    offers::Kind,
};

/// The notification that a request listens, and to what.
pub(super) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// The request.
pub(super) const LISTEN: &str = "subscriptions/listen";

/// A request that listens.
#[derive(Debug)]
pub(super) struct Listening {
    id: Value,
    wanted: BTreeSet<Kind>,
    resources: Vec<String>,
    pub(super) is_acknowledged: bool,
}

impl Listening {
    pub(super) fn read(id: &str, message: &Message<'_>) -> Self {
        let filter = message.param("notifications").unwrap_or("{}");
        let wants = |kind: &Kind| member(filter, kind.filter()) == Some("true");
        let resources = member(filter, "resourceSubscriptions").and_then(elements).unwrap_or_default();
        Self {
            id: serde_json::from_str(id).unwrap_or_default(),
            wanted: Kind::ALL.into_iter().filter(wants).collect(),
            resources: resources.into_iter().map(str::to_owned).collect(),
            is_acknowledged: false,
        }
    }

    /// Whether a message belongs to it.
    pub(super) fn owns(&self, message: &Message<'_>) -> bool {
        message.meta(SUBSCRIPTION).and_then(Key::read) == Key::read(&self.id.to_string())
    }

    /// Acknowledges it in the server's place; none if that has been done.
    pub(super) fn acknowledge(&mut self) -> Option<String> {
        if std::mem::replace(&mut self.is_acknowledged, true) {
            return None;
        }
        let params = json!({"_meta": self.meta(), "notifications": self.widened(Map::new())});
        Some(notification(ACKNOWLEDGED, Some(&params)))
    }

    /// Lets the server's acknowledgement say that lists are told of as well; none if there has been one.
    pub(super) fn acknowledged(&mut self, text: &str, message: &Message<'_>) -> Option<String> {
        if std::mem::replace(&mut self.is_acknowledged, true) {
            return None;
        }
        let Some(spelled) = message.param("notifications") else { return Some(text.to_owned()) };
        let filter = self.widened(serde_json::from_str(spelled).unwrap_or_default());
        Some(replace(text, spelled, &Value::Object(filter).to_string()))
    }

    /// What it is told when another build serves.
    pub(super) fn news(&self, kinds: &BTreeSet<Kind>) -> Vec<String> {
        if !self.is_acknowledged {
            return Vec::new();
        }
        let changed = kinds.intersection(&self.wanted);
        let lists = changed.map(|kind| notification(kind.changed(), Some(&json!({"_meta": self.meta()}))));
        let uri = |uri: &String| serde_json::from_str::<Value>(uri).unwrap_or_default();
        let resources = self.resources.iter().map(|resource| {
            let params = json!({"_meta": self.meta(), "uri": uri(resource)});
            notification("notifications/resources/updated", Some(&params))
        });
        lists.chain(resources).collect()
    }

    /// Its answer, when everything ends.
    pub(super) fn completed(&self) -> String {
        json!({"jsonrpc": "2.0", "id": self.id, "result": {"resultType": "complete", "_meta": self.meta()}}).to_string()
    }

    fn meta(&self) -> Value {
        json!({SUBSCRIPTION: self.id})
    }

    fn widened(&self, mut filter: Map<String, Value>) -> Map<String, Value> {
        filter.extend(self.wanted.iter().map(|kind| (kind.filter().to_owned(), Value::Bool(true))));
        filter
    }
}
