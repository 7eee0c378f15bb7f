//! Calls of tools that are tasks, or may become one.

use std::{
    future::ready,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    EXTENSION, NewTask,
    handoff::{Deferral, Ticket},
    new_id,
    runner::Job,
    side::{Side, TaskSession},
    undeclared,
};
use crate::{
    engine::{
        calls::{Answering, Call},
        connection::Connection,
        dispatch::{Request, Subject, Ways},
        layers,
        params::{self, Params},
    },
    error::Fault,
    handler::{
        Finished, Input,
        entry::{Run, TaskSupport},
    },
    jsonrpc::raw,
    registry::{Function, Tool},
    revision::Feature,
};

/// How a tool is called.
pub(in crate::engine) enum Execution {
    /// As ever.
    Plain,
    /// As a task, which its client wants to keep for a time.
    Task(Option<Duration>),
    /// As a call that may become a task: when its function says so, or at once, if there is room.
    Deferred { at_once: bool },
}

impl Execution {
    /// Decides it by what the tool supports, and what the client asks for or can have.
    ///
    /// # Errors
    ///
    /// The client must not ask for a task, or has to.
    pub(in crate::engine) fn of(request: &Request<'_>, tool: &Tool) -> Result<Self, Fault> {
        let support = tool.entry.task;
        let has = |feature| request.speaker.dialect.has(feature);
        if support == TaskSupport::Forbidden && request.params.task.is_none() {
            Ok(Self::Plain)
        } else if has(Feature::SessionTasks) {
            Self::as_asked_for(request, support)
        } else if has(Feature::TaskExtension) {
            match (support, declares_extension(request.params)) {
                (TaskSupport::Forbidden, _) | (TaskSupport::Optional | TaskSupport::Deferred, false) => Ok(Self::Plain),
                (TaskSupport::Required, false) => Err(undeclared()),
                (TaskSupport::Required, true) => Ok(Self::Task(None)),
                (TaskSupport::Optional, true) => Ok(Self::Deferred { at_once: true }),
                (TaskSupport::Deferred, true) => Ok(Self::Deferred { at_once: false }),
            }
        } else {
            Ok(Self::Plain)
        }
    }

    fn as_asked_for(request: &Request<'_>, support: TaskSupport) -> Result<Self, Fault> {
        let refuse = |why: &str| {
            let name = params::string(request.params.name, "name")?;
            Err(Fault::MethodNotFound(format!("tools/call of `{name}` {why}")))
        };
        match (support, request.params.task) {
            // Nobody was told that there are tasks, so that nobody can mean one.
            (TaskSupport::Forbidden, Some(_)) if !request.registry.capabilities().tasks => Ok(Self::Plain),
            (TaskSupport::Forbidden, Some(_)) => refuse("as a task"),
            (TaskSupport::Required, None) => refuse("other than as a task"),
            (_, None) => Ok(Self::Plain),
            (_, Some(task)) => read_ttl(task).map(Self::Task),
        }
    }
}

/// Says whether a client can have tasks that it does not ask for.
pub(in crate::engine) fn declares_extension(params: &Params<'_>) -> bool {
    let extensions = params.meta.client_capabilities.and_then(|json| params::member(json, "extensions"));
    let tasks = extensions.and_then(|json| params::member(json, EXTENSION));
    tasks.is_some_and(|json| raw::kind(json) == raw::Kind::Object)
}

/// Reads for how long a client wants its task to be kept.
fn read_ttl(task: &str) -> Result<Option<Duration>, Fault> {
    if raw::kind(task) != raw::Kind::Object {
        return Err(Fault::invalid_params("`task` must be an object"));
    }
    let Some(ttl) = params::member(task, "ttl").filter(|ttl| *ttl != "null") else { return Ok(None) };
    let ttl = ttl.parse().ok().filter(|ttl: &u64| *ttl > 0);
    let why = "`task.ttl` must be a whole number of milliseconds above 0";
    ttl.map(|ttl| Some(Duration::from_millis(ttl))).ok_or_else(|| Fault::invalid_params(why))
}

impl Connection {
    /// Makes a task of a call, and answers with that.
    pub(in crate::engine) fn call_as_task(
        &self,
        request: &Request<'_>,
        item: &Function,
        subject: Subject<'_>,
        arguments: &str,
        ttl: Option<Duration>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        let Run::Async(function) = &item.common.run else {
            return self.call_by(request, item, subject, arguments, Ways::default(), out);
        };
        self.check_in_flight()?;
        let forwards_log = self.engine.forwards_log;
        let new = NewTask { id: new_id()?, owner: self.task_owner(request)?, ttl };
        let side = Arc::new(self.side(request, &new.id));
        let ways = Ways {
            requester: Some(Arc::clone(&side) as _),
            peer: Some(Arc::clone(&side) as _),
            task_status: Some(Arc::clone(&side) as _),
            handoff: None,
        };
        let wants_context = item.uses_context || forwards_log;
        let context = wants_context.then(|| Arc::new(self.context(request, subject.name, ways)));
        let encoding = self.engine.encoding(request.speaker.dialect);
        // Whoever may be kept waiting for a task need not be kept waiting for the server's patience.
        let answering = Answering { name: item.common.name, is_tool: true, timeout: item.common.timeout };
        let layers = self.engine.layers.around(item);
        let is_layered = layers.is_some();
        let started = match layers {
            Some(next) => {
                let site = self.site(request, item, &subject, answering, context.clone());
                Ok(next.start(layers::Call::new(site, arguments)))
            }
            None => {
                let input = Input {
                    arguments,
                    contract: &item.contract,
                    states: &self.engine.states,
                    context: context.as_ref(),
                    encoding,
                    uri: subject.uri,
                };
                let entered = context.as_deref().filter(|_| forwards_log);
                answering.start(*function, input, entered, request.id)
            }
        };
        let running = match started {
            Ok(running) => running,
            // Whoever asked for a task gets one, however it ends.
            Err(refusal) if request.speaker.dialect.has(Feature::SessionTasks) => {
                Box::pin(ready(Finished { body: Vec::new(), outcome: Err(refusal) }))
            }
            Err(refusal) => {
                let start = out.len();
                answering.settle(out, start, encoding, request.id, Err(refusal));
                return Ok(true);
            }
        };
        let (encoding, id) = (Arc::clone(encoding), request.id.to_owned());
        let job = Job { encoding, id, answering, context, forwards_log, is_layered, side };
        let tasks = Arc::clone(&self.engine.tasks);
        let created = async move { tasks.create(new, job, running).await.map_err(|refused| refused.fault) };
        Ok(self.answer_with(request, item.common.name, self.engine.limits.timeout, created, out))
    }

    /// Calls a function that may become a task.
    pub(in crate::engine) fn call_deferred(
        &self,
        request: &Request<'_>,
        item: &Function,
        subject: Subject<'_>,
        arguments: &str,
        at_once: bool,
        out: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        let Some(rounds) = self.requester(request, &subject, arguments, item.uses_context || at_once)? else {
            return self.call_by(request, item, subject, arguments, Ways::default(), out);
        };
        // The task has no id before there is one; what needs it is not told with the extension.
        let side = Arc::new(self.side(request, ""));
        let ticket = Ticket {
            tasks: Arc::downgrade(&self.engine.tasks),
            owner: self.task_owner(request)?,
            encoding: Arc::clone(self.engine.encoding(request.speaker.dialect)),
            id: request.id.to_owned(),
            answering: Answering { name: item.common.name, is_tool: true, timeout: item.common.timeout },
            forwards_log: self.engine.forwards_log,
            is_layered: self.engine.layers.around(item).is_some(),
        };
        let deferral = Arc::new(Deferral::new(rounds, Arc::clone(&self.outbox), Arc::clone(&side), ticket, at_once));
        let ways = Ways {
            requester: Some(Arc::clone(&deferral) as _),
            peer: Some(Arc::clone(&deferral) as _),
            task_status: Some(side),
            handoff: Some(deferral),
        };
        self.call_by(request, item, subject, arguments, ways, out)
    }

    fn side(&self, request: &Request<'_>, task: &str) -> Side {
        match self.session.as_ref().filter(|_| request.speaker.dialect.has(Feature::SessionTasks)) {
            Some(session) => {
                let encoding = Arc::clone(self.engine.encoding(session.dialect));
                let outbox: Weak<_> = Arc::downgrade(&session.outbox);
                Side::new(&session.capabilities, Some(TaskSession { task: task.to_owned(), outbox, encoding }))
            }
            None => Side::new(request.params.meta.client_capabilities.unwrap_or("{}"), None),
        }
    }

    /// Whose the tasks of a request are: its principal's; its session's where nobody knows whom that belongs to; anybody's
    /// who knows their ids where there is no session.
    pub(super) fn task_owner(&self, request: &Request<'_>) -> Result<String, Fault> {
        if let Some(principal) = self.source.as_ref().and_then(|source| source.principal()) {
            return Ok(format!("principal:{principal}"));
        }
        let session = self.session.as_ref().filter(|_| request.speaker.dialect.has(Feature::SessionTasks));
        let Some(session) = session else { return Ok(String::new()) };
        if session.id.get().is_none() {
            // Of two at once, the first one counts.
            let _ = session.id.set(new_id()?);
        }
        Ok(format!("session:{}", session.id.get().map_or("", String::as_str)))
    }

    /// Answers a request with a result that may have to be waited for; true if the response was written.
    pub(super) fn answer_with(
        &self,
        request: &Request<'_>,
        name: &'static str,
        timeout: Option<Duration>,
        result: impl Future<Output = Result<Vec<u8>, Fault>> + Send + 'static,
        out: &mut Vec<u8>,
    ) -> bool {
        let call = Call {
            in_flight: &self.in_flight,
            outbox: &self.outbox,
            clock: &self.clock,
            encoding: self.engine.encoding(request.speaker.dialect),
            id: request.id.clone(),
            sink: request.sink,
            // Whoever waits for a task does no work.
            permit: None,
            context: None,
            forwards_log: false,
            answering: Answering { name, is_tool: false, timeout },
        };
        let finished = async move {
            match result.await {
                Ok(body) => Finished { body, outcome: Ok(()) },
                Err(fault) => Finished { body: Vec::new(), outcome: Err(fault.into()) },
            }
        };
        call.drive(Box::pin(finished), out)
    }
}
