//! The filter of a `subscriptions/listen` request, and the listener that it creates.

use std::{collections::HashSet, sync::Arc};

use crate::{
    counters::{Counted, Counter},
    engine::{
        call::response,
        outbox::Outbox,
        request::{
            operation::{Ending, Operation},
            params::Params,
            source::Permit,
        },
        subscriptions::{self, MAX_RESOURCES, MAX_URI_BYTES, Sees, Subscriber, too_many_resources},
        tasks::TaskWatch,
    },
    error::Fault,
    handler::Encoding,
    jsonrpc::{Id, RawJson, raw, write},
    registry::{ListKind, ListSet, ServerCapabilities},
    revision::encode::{self, Object, member},
};

const RESOURCES: &str = "resourceSubscriptions";
const TASKS: &str = "taskIds";

/// The maximum number of tasks in one subscription.
const MAX_WATCHED_TASKS: usize = 128;

/// The changes that a client subscribes to.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pub(crate) lists: ListSet,
    /// The URIs of resources. `None` if the member is missing.
    pub(crate) resources: Option<Vec<String>>,
    /// The ids of tasks. `None` if the member is missing.
    pub(crate) tasks: Option<Vec<String>>,
}

impl Filter {
    /// Reads the filter of a request whose dialect announces the changes of these lists.
    ///
    /// # Errors
    ///
    /// Returns a fault if the filter is missing, or if a member has the wrong type or too many elements.
    pub(crate) fn read(params: &Params<'_>, lists: ListSet) -> Result<Self, Fault> {
        let filter =
            params.member("notifications").ok_or_else(|| Fault::invalid_params("`notifications` is missing"))?;
        if !filter.is_object() {
            return Err(Fault::invalid_params("`notifications` must be an object"));
        }
        let mut requested = Self::default();
        for (kind, name) in lists.iter().filter_map(|kind| Some((kind, list_filter(kind)?))) {
            match filter.member(&name).map(RawJson::text) {
                None | Some("false") => {}
                Some("true") => requested.lists.insert(kind),
                Some(_) => {
                    let message = format!("`notifications.{name}` must be true or false");
                    return Err(Fault::InvalidParams(message));
                }
            }
        }
        let read_uris = |json| read_strings(json, RESOURCES, MAX_RESOURCES, too_many_resources);
        requested.resources = filter.member(RESOURCES).map(RawJson::text).map(read_uris).transpose()?;
        requested.tasks = filter.member(TASKS).map(RawJson::text).map(read_task_ids).transpose()?;
        Ok(requested)
    }

    /// Removes everything that the server does not offer to the client, except for ids of tasks.
    pub(crate) fn supported(
        mut self,
        capabilities: ServerCapabilities,
        lists_change: bool,
        is_known: impl Fn(&str) -> bool,
    ) -> Self {
        let lists = if lists_change { self.lists.and(capabilities.lists()) } else { ListSet::default() };
        self.tasks = self.tasks.filter(|_| capabilities.tasks);
        self.resources = self.resources.filter(|_| lists_change && capabilities.resources);
        if let Some(resources) = &mut self.resources {
            resources.retain(|uri| is_known(uri));
        }
        Self { lists, ..self }
    }

    /// Writes the filter as a JSON object.
    fn write(&self, out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        for name in self.lists.iter().filter_map(list_filter) {
            object.raw(&name, b"true");
        }
        if let Some(resources) = &self.resources {
            encode::array(object.key(RESOURCES), resources, |out, uri| write::string(out, uri));
        }
        if let Some(tasks) = &self.tasks {
            encode::array(object.key(TASKS), tasks, |out, id| write::string(out, id));
        }
        object.end();
    }
}

/// Returns the member that asks for changes to a list.
fn list_filter(kind: ListKind) -> Option<String> {
    Some(format!("{}ListChanged", kind.announced()?))
}

fn read_task_ids(json: &str) -> Result<Vec<String>, Fault> {
    let kibibytes = MAX_URI_BYTES >> 10;
    let too_many = || {
        Fault::InvalidParams(format!(
            "too many subscriptions: the limit is {MAX_WATCHED_TASKS} tasks and {kibibytes} KiB of task ids"
        ))
    };
    read_strings(json, TASKS, MAX_WATCHED_TASKS, too_many)
}

/// Reads an array of strings without duplicates.
fn read_strings(json: &str, name: &str, limit: usize, too_many: impl Fn() -> Fault) -> Result<Vec<String>, Fault> {
    let wrong_type = || Fault::InvalidParams(format!("`notifications.{name}` must be an array of strings"));
    if raw::kind(json) != raw::Kind::Array {
        return Err(wrong_type());
    }
    let (mut strings, mut seen, mut bytes) = (Vec::new(), HashSet::new(), 0);
    for string in raw::elements(json) {
        let string = raw::string(string).ok_or_else(wrong_type)?;
        if !seen.insert(string.clone()) {
            continue;
        }
        bytes += string.len();
        if strings.len() >= limit || bytes > MAX_URI_BYTES {
            return Err(too_many());
        }
        strings.push(string.into_owned());
    }
    Ok(strings)
}

/// An open `subscriptions/listen` request. It stays open until the client cancels it or the server shuts down.
#[derive(Debug)]
pub(crate) struct Listener {
    subscriber: Subscriber,
    outbox: Arc<Outbox>,
    encoding: Arc<Encoding>,
    /// The watch that notifies the client of changes to tasks.
    pub(crate) task_watch: Option<TaskWatch>,
    _permit: Option<Permit>,
    /// The operation that ends with the request. A client that no longer listens has not failed.
    pub(crate) operation: Operation,
    _count: Counted,
}

impl Listener {
    /// Acknowledges the request, and starts to notify the client, which sees the functions that `sees` accepts, of the
    /// changes that its filter selects.
    pub(crate) fn start(
        subscriber: Subscriber,
        filter: &Filter,
        sees: &Sees<'_>,
        id: &Id,
        outbox: &Arc<Outbox>,
        encoding: &Arc<Encoding>,
        permit: Option<Permit>,
    ) -> Self {
        let mut acknowledgement = Vec::new();
        write_acknowledgement(&mut acknowledgement, id, filter);
        // The acknowledgement must precede every notification.
        outbox.open_listener(&acknowledgement);
        subscriber.subscribe(filter.lists, filter.resources.as_deref().unwrap_or_default(), sees);
        Self {
            subscriber,
            outbox: Arc::clone(outbox),
            encoding: Arc::clone(encoding),
            task_watch: None,
            _permit: permit,
            operation: Operation::none(),
            _count: Counted::new(Counter::Listeners),
        }
    }

    /// Ends the request without a response.
    pub(crate) fn cancel(self) {
        drop(self.subscriber);
        self.operation.end(self.encoding.dialect, &Ending::Complete);
        self.outbox.close_listener(|_| {});
    }

    /// Ends the request with its response, which follows the pending notifications.
    pub(crate) fn end(mut self, id: &Id) {
        self.subscriber.unsubscribe_all();
        self.task_watch = None;
        self.operation.end(self.encoding.dialect, &Ending::Complete);
        self.outbox.close_listener(|out| {
            response::write_result(out, id, &result(&self.encoding, id));
            out.push(b'\n');
        });
    }
}

/// Returns the error for a `subscriptions/listen` request beyond a limit on their number.
pub(crate) fn too_many_listeners() -> Fault {
    Fault::refused(Counter::RefusedListeners, "too many open `subscriptions/listen` requests")
}

fn write_acknowledgement(out: &mut Vec<u8>, id: &Id, filter: &Filter) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"#);
    subscriptions::write_subscription_id(out, id.as_json());
    out.extend_from_slice(br#","notifications":"#);
    filter.write(out);
    out.extend_from_slice(b"}}\n");
}

/// Returns the result of a request that the server ends.
///
/// See [Graceful closure](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions#graceful-closure).
fn result(encoding: &Encoding, id: &Id) -> Vec<u8> {
    let mut out = vec![b'{'];
    let write_id = |out: &mut Vec<u8>| {
        member(out, "io.modelcontextprotocol/subscriptionId").extend_from_slice(id.as_json().as_bytes());
    };
    encoding.end_result_with(&mut out, "complete", Some(write_id));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{engine::subscriptions::Subscriptions, model::Implementation, revision};

    /// The client reads nothing before the request ends.
    #[test]
    fn the_response_of_a_listener_follows_its_notifications() {
        let (subscriptions, outbox) = (Arc::<Subscriptions>::default(), Outbox::for_test());
        let dialect = revision::newest();
        let encoding = Arc::new(Encoding::new(dialect, &Implementation::default()));
        let subscriber = Subscriber::of_request(&subscriptions, &outbox, "1").unwrap();
        let filter = Filter { lists: ListSet::ALL, resources: Some(vec!["a:b".to_owned()]), tasks: None };
        let id = Id::from_json("1").unwrap();
        let listener = Listener::start(subscriber, &filter, &|_| true, &id, &outbox, &encoding, None);
        subscriptions.lists_changed(ListSet::ALL);
        subscriptions.resource_updated("a:b");
        listener.end(&id);
        let mut output = Vec::new();
        assert!(outbox.drain(&mut output));
        let lines: Vec<serde_json::Value> = output
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        let methods: Vec<_> = lines.iter().map(|line| line["method"].as_str().unwrap_or("response")).collect();
        let name = |method| format!("notifications/{method}");
        let mut expected: Vec<_> = [
            "subscriptions/acknowledged",
            "tools/list_changed",
            "resources/list_changed",
            "prompts/list_changed",
            "resources/updated",
        ]
        .map(name)
        .into();
        expected.push("response".to_owned());
        assert_eq!(methods, expected);
    }
}
