//! Being told of changes: `subscriptions/listen`, and the subscriptions of sessions.
//!
//! See [Subscriptions](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions).

use std::{collections::HashSet, sync::Arc};

use super::{
    connection::Connection,
    dispatch::Request,
    in_flight::{InFlight, Sink},
    outbox::Outbox,
    params::{self, Params},
    results,
    subscriptions::{self, Subscriber, WATCHED, WATCHED_BYTES},
    tasks::{self, WATCHED_TASKS, Watch},
};
use crate::{
    error::Fault,
    handler::{Encoding, comma, entry::EntryKind},
    jsonrpc::{Id, raw, write},
    registry::{Kinds, ServerCapabilities},
    revision::encode::{self, Object},
};

/// The most requests that may listen on one connection.
const LISTENS: usize = 1024;

/// The most bytes of the id of a request that listens, since every message to it repeats the id.
const ID: usize = 1024;

/// What a client wants to be told of.
#[derive(Debug, Default)]
struct Filter {
    lists: Kinds,
    /// None where it does not ask for any.
    resources: Option<Vec<String>>,
    /// The ids of tasks; none where it does not ask for any.
    tasks: Option<Vec<String>>,
}

/// A request that listens, until it is cancelled or the server ends it.
#[derive(Debug)]
pub(super) struct Listen {
    subscriber: Subscriber,
    outbox: Arc<Outbox>,
    encoding: Arc<Encoding>,
    /// Tells of tasks.
    watch: Option<Watch>,
}

impl Connection {
    pub(super) fn subscriber(&self) -> Option<&Subscriber> {
        self.session.as_ref()?.subscriber.as_ref()
    }

    /// Tells the session of a resource's changes from now on.
    ///
    /// See [Subscriptions](https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions).
    pub(super) fn subscribe(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<bool, Fault> {
        let uri = params::string(request.params.uri, "uri")?;
        let subscriber = self.subscriber_for("resources/subscribe")?;
        let sight = self.sight(request);
        if request.registry.resource(&uri, |item| sight.sees(item)).is_none() {
            return Err(Fault::ResourceNotFound(uri.into_owned()));
        }
        subscriber.watch_resource(&uri).map_err(|_| too_many())?;
        self.acknowledge(request, out)
    }

    pub(super) fn unsubscribe(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<bool, Fault> {
        let uri = params::string(request.params.uri, "uri")?;
        self.subscriber_for("resources/unsubscribe")?.leave_resource(&uri);
        self.acknowledge(request, out)
    }

    /// The session's way of being told; none where it began before the server could change, and was told so.
    fn subscriber_for(&self, method: &str) -> Result<&Subscriber, Fault> {
        self.subscriber().ok_or_else(|| Fault::MethodNotFound(method.to_owned()))
    }

    /// Tells the client of changes until it cancels the request, or the server ends.
    pub(super) fn listen(&self, request: &Request<'_>) -> Result<bool, Fault> {
        if matches!(request.sink, Sink::Batch(_)) {
            return Err(Fault::InvalidRequest("`subscriptions/listen` must not be part of a batch".to_owned()));
        }
        if request.id.as_json().len() > ID {
            let why = format!("the id of `subscriptions/listen` may have at most {ID} bytes");
            return Err(Fault::InvalidRequest(why));
        }
        let sight = self.sight(request);
        let registry = request.registry;
        let is_there = |uri: &str| registry.resource(uri, |item| sight.sees(item)).is_some();
        let offers = registry.capabilities();
        let wanted = Filter::read(request.params)?;
        if offers.tasks && wanted.tasks.is_some() && !tasks::declares_extension(request.params) {
            return Err(tasks::undeclared());
        }
        let filter = wanted.honoured(offers, self.engine.announces_changes(), is_there);
        if self.in_flight.listening() >= LISTENS {
            let why = format!("too many requests listen on this connection, at most {LISTENS} may");
            return Err(Fault::Overloaded(why));
        }
        let subscriber = Subscriber::listening(&self.engine.subscriptions, &self.outbox, request.id.as_json());
        let subscriber = subscriber.ok_or_else(|| Fault::overloaded("too many requests listen"))?;
        let encoding = self.engine.encoding(request.speaker.dialect);
        let mut listen = Listen::begin(subscriber, &filter, request.id, &self.outbox, encoding);
        if let Some(ids) = filter.tasks.filter(|ids| !ids.is_empty()) {
            listen.watch = Some(self.watch_tasks(request, ids)?);
        }
        match self.in_flight.listen(request.id.to_owned(), listen) {
            true => Ok(false),
            false => Err(results::id_in_flight(request.id)),
        }
    }
}

impl Filter {
    /// Reads what a request asks for.
    ///
    /// # Errors
    ///
    /// A filter that is missing, or whose members are of the wrong types or too many.
    fn read(params: &Params<'_>) -> Result<Self, Fault> {
        let filter =
            params.member("notifications").ok_or_else(|| Fault::invalid_params("`notifications` is missing"))?;
        if raw::kind(filter) != raw::Kind::Object {
            return Err(Fault::invalid_params("`notifications` must be an object"));
        }
        let mut wanted = Self::default();
        for kind in Kinds::EACH {
            match params::member(filter, member(kind)) {
                None | Some("false") => {}
                Some("true") => wanted.lists.insert(kind),
                Some(_) => {
                    let why = format!("`notifications.{}` must be true or false", member(kind));
                    return Err(Fault::InvalidParams(why));
                }
            }
        }
        wanted.resources = params::member(filter, RESOURCES).map(read_uris).transpose()?;
        wanted.tasks = params::member(filter, TASKS).map(read_tasks).transpose()?;
        Ok(wanted)
    }

    /// Leaves out what cannot be had. Of tasks, nothing is told of one that is not there or not the client's.
    fn honoured(mut self, offers: ServerCapabilities, changes: bool, is_there: impl Fn(&str) -> bool) -> Self {
        let mut lists = Kinds::default();
        for kind in Kinds::EACH.into_iter().filter(|kind| changes && self.lists.has(*kind) && offers.has(*kind)) {
            lists.insert(kind);
        }
        self.tasks = self.tasks.filter(|_| offers.tasks);
        self.resources = self.resources.filter(|_| changes && offers.resources);
        if let Some(resources) = &mut self.resources {
            resources.retain(|uri| is_there(uri));
        }
        Self { lists, ..self }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        for kind in Kinds::EACH.into_iter().filter(|kind| self.lists.has(*kind)) {
            object.raw(member(kind), b"true");
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

const RESOURCES: &str = "resourceSubscriptions";
const TASKS: &str = "taskIds";

fn member(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Tool => "toolsListChanged",
        EntryKind::Resource => "resourcesListChanged",
        EntryKind::Prompt => "promptsListChanged",
    }
}

fn read_uris(json: &str) -> Result<Vec<String>, Fault> {
    read_strings(json, RESOURCES, WATCHED, too_many)
}

fn read_tasks(json: &str) -> Result<Vec<String>, Fault> {
    let too_many = || Fault::InvalidParams(format!("at most {WATCHED_TASKS} tasks may be subscribed to"));
    read_strings(json, TASKS, WATCHED_TASKS, too_many)
}

/// Reads strings, each once.
fn read_strings(json: &str, name: &str, most: usize, too_many: impl Fn() -> Fault) -> Result<Vec<String>, Fault> {
    let wrong = || Fault::InvalidParams(format!("`notifications.{name}` must be an array of strings"));
    if raw::kind(json) != raw::Kind::Array {
        return Err(wrong());
    }
    let (mut strings, mut seen, mut bytes) = (Vec::new(), HashSet::new(), 0);
    for string in raw::elements(json) {
        let string = raw::string(string).ok_or_else(wrong)?;
        if !seen.insert(string.clone()) {
            continue;
        }
        bytes += string.len();
        if strings.len() >= most || bytes > WATCHED_BYTES {
            return Err(too_many());
        }
        strings.push(string.into_owned());
    }
    Ok(strings)
}

/// Refuses to watch more resources.
fn too_many() -> Fault {
    Fault::InvalidParams(format!("at most {WATCHED} resources may be subscribed to, with 256 KiB of URIs"))
}

impl Listen {
    /// Acknowledges the request, and tells from then on what its filter wants.
    fn begin(
        subscriber: Subscriber,
        filter: &Filter,
        id: &Id<'_>,
        outbox: &Arc<Outbox>,
        encoding: &Arc<Encoding>,
    ) -> Self {
        let mut acknowledged = Vec::new();
        acknowledge(&mut acknowledged, id, filter);
        // Before anything is watched, so that nothing is told before it.
        outbox.begin_listen(&acknowledged);
        subscriber.watch(filter.lists, filter.resources.as_deref().unwrap_or_default());
        Self { subscriber, outbox: Arc::clone(outbox), encoding: Arc::clone(encoding), watch: None }
    }

    /// Ends it without an answer.
    pub(super) fn stop(self) {
        drop(self.subscriber);
        self.outbox.end_listen(|_| {});
    }

    /// Ends it with its answer, behind everything that it was to tell.
    pub(super) fn complete(self, id: &Id<'_>) {
        self.subscriber.leave();
        drop(self.watch);
        self.outbox.end_listen(|out| {
            results::respond(out, id, &completed(&self.encoding, id));
            out.push(b'\n');
        });
    }
}

fn acknowledge(out: &mut Vec<u8>, id: &Id<'_>, filter: &Filter) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"#);
    subscriptions::write_tag(out, id.as_json());
    out.extend_from_slice(br#","notifications":"#);
    filter.write(out);
    out.extend_from_slice(b"}}\n");
}

/// Writes the result of a subscription that the server ends.
///
/// See [Graceful closure](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions#graceful-closure).
fn completed(encoding: &Encoding, id: &Id<'_>) -> Vec<u8> {
    let mut out = br#"{"resultType":"complete","_meta":{"#.to_vec();
    out.extend_from_slice(&encoding.identity);
    comma(&mut out);
    out.extend_from_slice(br#""io.modelcontextprotocol/subscriptionId":"#);
    out.extend_from_slice(id.as_json().as_bytes());
    out.extend_from_slice(b"}}");
    out
}

impl InFlight {
    /// Ends every request that listens with its answer; says whether there was any.
    pub(crate) fn end_listens(&self) -> bool {
        let listens = self.take_listens();
        let any = !listens.is_empty();
        listens.into_iter().for_each(|(id, listen)| listen.complete(&id));
        any
    }
}
