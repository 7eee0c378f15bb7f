//! The filter of `subscriptions/listen`.

use std::collections::HashSet;

use super::subscriber::{MAX_RESOURCES, MAX_URI_BYTES};
use crate::{
    engine::{
        request::params::{self, Params},
        tasks::watch::MAX_WATCHED_TASKS,
    },
    error::Fault,
    handler::entry::EntryKind,
    jsonrpc::{raw, write},
    registry::{Kinds, ServerCapabilities},
    revision::encode::{self, Object},
};

/// What a client wants to be told of.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pub(crate) lists: Kinds,
    /// None where it does not ask for any.
    pub(crate) resources: Option<Vec<String>>,
    /// The ids of tasks; none where it does not ask for any.
    pub(crate) tasks: Option<Vec<String>>,
}

impl Filter {
    /// Reads what a request asks for.
    ///
    /// # Errors
    ///
    /// A filter that is missing, or whose members are of the wrong types or too many.
    pub(crate) fn read(params: &Params<'_>) -> Result<Self, Fault> {
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
    pub(crate) fn honoured(
        mut self,
        offers: ServerCapabilities,
        changes: bool,
        is_there: impl Fn(&str) -> bool,
    ) -> Self {
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

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
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
    read_strings(json, RESOURCES, MAX_RESOURCES, too_many_resources)
}

fn read_tasks(json: &str) -> Result<Vec<String>, Fault> {
    let too_many = || Fault::InvalidParams(format!("at most {MAX_WATCHED_TASKS} tasks may be subscribed to"));
    read_strings(json, TASKS, MAX_WATCHED_TASKS, too_many)
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
        if strings.len() >= most || bytes > MAX_URI_BYTES {
            return Err(too_many());
        }
        strings.push(string.into_owned());
    }
    Ok(strings)
}

/// Refuses to watch more resources.
pub(crate) fn too_many_resources() -> Fault {
    Fault::InvalidParams(format!("at most {MAX_RESOURCES} resources may be subscribed to, with 256 KiB of URIs"))
}
