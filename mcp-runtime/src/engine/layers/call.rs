use std::{fmt, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    engine::{call::callee::Callee, request::caller::Caller},
    handler::{
        Context, Contract, Encoding, Finished, Input, StateMap,
        entry::{CommonEntry, EntryInfo, EntryKind, Handler, Hints},
    },
    jsonrpc::{Id, raw},
};

/// One call of a function, as layers see it. A clone is the same call, and costs little.
#[derive(Clone)]
pub struct Call {
    pub(super) info: Arc<CallInfo>,
    arguments: Arc<str>,
}

/// What does not change on the way through the layers.
pub(crate) struct CallInfo {
    pub(crate) entry: EntryInfo<'static>,
    pub(crate) common: &'static CommonEntry,
    pub(crate) contract: Arc<Contract>,
    pub(crate) uses_context: bool,
    pub(crate) name: Box<str>,
    /// Empty where nothing is read.
    pub(crate) uri: Box<str>,
    pub(crate) hints: Hints,
    pub(crate) caller: Caller,
    /// Whether the client brings what an earlier round asked for.
    pub(crate) is_continued: bool,
    pub(crate) id: Id<'static>,
    pub(crate) callee: Callee,
    pub(crate) states: Arc<StateMap>,
    pub(crate) context: Option<Arc<Context>>,
    /// Whether the log of the function goes to the client.
    pub(crate) forwards_log: bool,
    pub(crate) encoding: Arc<Encoding>,
}

impl Call {
    pub(crate) fn new(info: CallInfo, arguments: &str) -> Self {
        Self { info: Arc::new(info), arguments: arguments.into() }
    }

    /// Whether it is a tool, a resource or a prompt.
    pub fn kind(&self) -> EntryKind {
        self.info.entry.kind
    }

    /// The name of the tool or prompt; of a resource its URI.
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// The annotated function. Unlike the URI of a resource, its name is one of a few.
    pub fn entry(&self) -> EntryInfo<'static> {
        self.info.entry
    }

    /// What the author said about what a tool does; nothing of resources and prompts.
    pub fn hints(&self) -> Hints {
        self.info.hints
    }

    /// Who calls.
    pub fn caller(&self) -> &Caller {
        &self.info.caller
    }

    /// The JSON of the request's id, as log files know it.
    pub fn request_id(&self) -> &str {
        self.info.id.as_json()
    }

    /// The JSON object of the arguments. Those of a prompt, and the variables of a resource's template, have been brought
    /// into the types that the function takes.
    ///
    /// Nobody has checked them yet: that comes after the layers.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// One of the arguments, as it came.
    pub fn argument(&self, name: &str) -> Option<Value> {
        let found = raw::members(&self.arguments).filter(|(key, _)| key == name).last()?;
        serde_json::from_str(found.1).ok()
    }

    /// Replaces the arguments. The schema holds for the new ones as for any others.
    pub fn set_arguments(&mut self, arguments: Map<String, Value>) {
        self.arguments = Value::Object(arguments).to_string().into();
    }

    /// Whether the function takes [`Context`](crate::Context), so that the answer may depend on more than the arguments
    /// and the state of the server.
    pub fn uses_context(&self) -> bool {
        self.info.uses_context
    }

    /// Whether the function has asked its client for something, in this round or an earlier one, so that the answer is
    /// for nobody else.
    pub fn is_conversation(&self) -> bool {
        self.info.is_continued || self.info.context.as_ref().is_some_and(|context| context.has_asked())
    }

    /// What tells the function from all others, also from a later one of the same name.
    #[cfg(feature = "cache")]
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self.info.common).addr()
    }

    /// Calls the function.
    pub(super) async fn run(self) -> Finished {
        let Self { info, arguments } = self;
        let running = {
            let input = Input {
                arguments: &arguments,
                contract: &info.contract,
                states: &info.states,
                context: info.context.as_ref(),
                encoding: &info.encoding,
                uri: &info.uri,
            };
            match info.common.handler {
                Handler::Sync(function) => return input.into_owned().finish(|reply| function(input, reply)),
                Handler::Async(function) => function(input),
            }
        };
        match running {
            Ok(running) => running.await,
            Err(refusal) => Finished { body: Vec::new(), outcome: Err(refusal) },
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("kind", &self.kind()).field("name", &self.name()).finish_non_exhaustive()
    }
}
