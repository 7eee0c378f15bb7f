//! The methods.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

use super::{
    Caller, Session,
    caller::Sight,
    calls::{Answering, Call},
    client_requests::{Binding, Kept, Live, Retry, Rounds},
    connection::Connection,
    in_flight::Sink,
    layers::{self, Site},
    outbox::Outbox,
    params::{self, Params},
    request_source::Permit,
    results,
    subscriptions::Subscriber,
    tasks,
};
use crate::{
    error::Fault,
    handler::{
        ClientInfo, ClientRequester, Context, ContextParts, Input, LogThreshold, OwnedEnv, Peer, Produced, Refusal,
        StatusMessages, TaskHandoff,
        entry::{Common, Hints, Run, ServerFnEntry},
        from_strings, on_a_thread,
    },
    jsonrpc::{self, Id, Message, raw},
    model::Level,
    registry::{Found, Function, ListKind, Registry, Tool},
    revision::{self, Dialect, Feature},
};

/// In which dialect a request is made, and what it says of itself.
pub(super) struct Speaker {
    pub(super) dialect: &'static Dialect,
    /// The log level of a stateless request.
    pub(super) level: Option<Level>,
}

/// One request, with everything that answering it needs.
pub(super) struct Request<'a> {
    pub(super) speaker: &'a Speaker,
    pub(super) params: &'a Params<'a>,
    pub(super) id: &'a Id<'a>,
    pub(super) sink: &'a Sink,
    /// What the server offers while the request is answered.
    pub(super) registry: &'a Arc<Registry>,
}

/// How a call reaches its client, where that is not how every call does.
#[derive(Default)]
pub(super) struct Ways {
    pub(super) requester: Option<Arc<dyn ClientRequester>>,
    pub(super) peer: Option<Arc<dyn Peer>>,
    pub(super) task_status: Option<Arc<dyn StatusMessages>>,
    pub(super) handoff: Option<Arc<dyn TaskHandoff>>,
}

impl Connection {
    /// Answers one request; true if the response was written, false if it will come.
    pub(super) fn dispatch(
        &mut self,
        speaker: &Speaker,
        message: &Message<'_>,
        params: &Params<'_>,
        id: &Id<'_>,
        sink: &Sink,
        out: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        let registry = self.engine.registry();
        let request = Request { speaker, params, id, sink, registry: &registry };
        let offers = registry.capabilities();
        let changes = self.engine.announces_changes();
        let has = |feature| speaker.dialect.has(feature);
        match &*message.method {
            "tools/call" if offers.tools => self.call_tool(&request, out),
            "tools/list" if offers.tools => self.list(&request, ListKind::Tools, out),
            "resources/read" if offers.resources => self.read_resource(&request, out),
            "resources/list" if offers.resources => self.list(&request, ListKind::Resources, out),
            "resources/templates/list" if offers.resources => self.list(&request, ListKind::Templates, out),
            "prompts/get" if offers.prompts => self.get_prompt(&request, out),
            "prompts/list" if offers.prompts => self.list(&request, ListKind::Prompts, out),
            "completion/complete" if offers.completions => self.complete(&request, out),
            "ping" if has(Feature::Ping) => self.acknowledge(&request, out),
            "logging/setLevel" if offers.logging && has(Feature::LogLevel) => {
                self.level.set(params::level(params.member("level"), "level")?);
                self.acknowledge(&request, out)
            }
            "resources/subscribe" if offers.resources && changes && has(Feature::ResourceSubscriptions) => {
                self.subscribe(&request, out)
            }
            "resources/unsubscribe" if offers.resources && changes && has(Feature::ResourceSubscriptions) => {
                self.unsubscribe(&request, out)
            }
            "skills/list" if offers.skills && has(Feature::Extensions) => self.list_skills(&request, out),
            "skills/get" if offers.skills && has(Feature::Extensions) => self.get_skill(&request, out),
            "resources/directory/read" if offers.skills && has(Feature::Extensions) => {
                self.read_directory(&request, out)
            }
            "subscriptions/listen" if (changes || offers.tasks) && has(Feature::Listening) => self.listen(&request),
            method if offers.tasks && method.starts_with("tasks/") => self.task_request(method, &request, out),
            "initialize" if has(Feature::Handshake) => self.initialize(&request, out),
            "server/discover" if has(Feature::RequestMeta) => {
                results::respond(out, id, self.engine.introduction(&registry, speaker.dialect));
                Ok(true)
            }
            method => match speaker.dialect.method(method) {
                Some(respond) => {
                    let encoding = self.engine.encoding(speaker.dialect);
                    let result =
                        results::of_dialect(encoding, respond, message.params.as_ref().map(jsonrpc::Object::json))?;
                    results::respond(out, id, &result);
                    Ok(true)
                }
                None => Err(Fault::MethodNotFound(method.to_owned())),
            },
        }
    }

    /// Takes a notification. Nothing is ever answered, whatever is wrong with it.
    pub(super) fn notification(&mut self, message: &Message<'_>) {
        let params = Params::read(message.params.as_ref());
        match &*message.method {
            "notifications/cancelled" => {
                let id = params.member("requestId").and_then(Id::from_json);
                let known = id.is_some_and(|id| self.in_flight.cancel(&id));
                tracing::debug!(known, reason = params.member("reason"), "the client cancelled a request");
            }
            "notifications/initialized" => {
                tracing::debug!("the client is ready");
                if let Some(subscriber) = self.subscriber() {
                    subscriber.ready();
                }
            }
            method => tracing::debug!(method, "a notification that means nothing to the server"),
        }
    }

    /// Opens a session.
    ///
    /// See [Initialization](https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization).
    fn initialize(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<bool, Fault> {
        if matches!(request.sink, Sink::Batch(_)) {
            return Err(Fault::InvalidRequest("`initialize` must not be part of a batch".to_owned()));
        }
        if self.is_open() {
            return Err(Fault::InvalidRequest("the session is already initialized".to_owned()));
        }
        let version = request.params.string("protocolVersion")?;
        let dialect = revision::handshake(&version).unwrap_or_else(revision::newest_handshake);
        let client = client_info(request.params.member("clientInfo"));
        tracing::info!(
            client = client.as_ref().map(|client| client.name.as_str()),
            requested = &*version,
            version = dialect.name(),
            "a session begins"
        );
        let (in_flight, level) = (Arc::clone(&self.in_flight), Arc::clone(&self.level));
        let outbox = match self.is_brief {
            true => Arc::new(Outbox::new(Arc::clone(&level))),
            false => Arc::clone(&self.outbox),
        };
        let subscriber =
            self.engine.announces_changes().then(|| Subscriber::of_session(&self.engine.subscriptions, &outbox));
        let capabilities = request.params.member("capabilities").unwrap_or("{}").into();
        let questions = Arc::default();
        let id = OnceLock::new();
        self.session = Some(Arc::new(Session {
            id,
            dialect,
            client,
            capabilities,
            questions,
            in_flight,
            level,
            outbox,
            subscriber,
        }));
        results::respond(out, request.id, self.engine.introduction(request.registry, dialect));
        Ok(true)
    }

    /// What the sender of a request sees of the server.
    pub(super) fn sight(&self, request: &Request<'_>) -> Sight {
        let Some(visibility) = &self.engine.visibility else { return Sight::default() };
        visibility.of(self.caller(request))
    }

    fn caller(&self, request: &Request<'_>) -> Caller {
        let source = self.source.as_ref();
        Caller {
            principal: source.and_then(|source| source.principal()).map(Into::into),
            client: self.client(request),
            revision: request.speaker.dialect.revision(),
            head: source.map(|source| Arc::clone(source) as _),
        }
    }

    /// Who the client says it is.
    fn client(&self, request: &Request<'_>) -> Option<ClientInfo> {
        match request.speaker.dialect.has(Feature::RequestMeta) {
            true => client_info(request.params.meta.client_info),
            false => self.session.as_ref()?.client.clone(),
        }
    }

    pub(super) fn acknowledge(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<bool, Fault> {
        results::respond(out, request.id, &results::empty(self.engine.encoding(request.speaker.dialect)));
        Ok(true)
    }

    fn call_tool(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<bool, Fault> {
        let name = params::string(request.params.name, "name")?;
        let sight = self.sight(request);
        let Some(tool) = request.registry.tool(&name).filter(|tool| sight.sees(&tool.function)) else {
            return Err(Fault::UnknownTool(name.into_owned()));
        };
        let arguments = request.params.arguments()?;
        self.check_headers(request, tool, arguments)?;
        let subject = Subject { method: "tools/call", name: &name, uri: "", hints: tool.entry.hints };
        match tasks::Execution::of(request, tool)? {
            tasks::Execution::Plain => self.call(request, &tool.function, subject, arguments, out),
            tasks::Execution::Task(ttl) => self.call_as_task(request, &tool.function, subject, arguments, ttl, out),
            tasks::Execution::Deferred { at_once } => {
                self.call_deferred(request, &tool.function, subject, arguments, at_once, out)
            }
        }
    }

    /// Compares the arguments that the transport repeats with what it says of them.
    fn check_headers(&self, request: &Request<'_>, tool: &Tool, arguments: &str) -> Result<(), Fault> {
        let Some(source) = self.source.as_ref().filter(|_| !tool.headers.is_empty()) else { return Ok(()) };
        if !request.speaker.dialect.has(Feature::RequestMeta) {
            return Ok(());
        }
        let value = |path: &[String]| path.iter().try_fold(arguments, |json, name| params::member(json, name));
        let mirrored = tool.headers.iter().map(|header| (header.name.as_str(), value(&header.path)));
        source.check_arguments(&mirrored.collect::<Vec<_>>())
    }

    fn get_prompt(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<bool, Fault> {
        let name = params::string(request.params.name, "name")?;
        let sight = self.sight(request);
        let Some(prompt) = request.registry.prompt(&name).filter(|prompt| sight.sees(&prompt.function)) else {
            return Err(Fault::UnknownPrompt(name.into_owned()));
        };
        let mut strings = Vec::new();
        for (argument, json) in raw::members(request.params.arguments()?) {
            let Some(text) = raw::string(json) else {
                let why = format!("the argument `{argument}` of a prompt must be a string, but it is {json}");
                return Err(Fault::InvalidParams(why));
            };
            strings.push((argument, text));
        }
        let arguments = from_strings(&prompt.function.contract, strings);
        let subject = Subject { method: "prompts/get", name: &name, uri: "", hints: Hints::default() };
        self.call(request, &prompt.function, subject, &arguments, out)
    }

    fn read_resource(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<bool, Fault> {
        let uri = params::string(request.params.uri, "uri")?;
        let sight = self.sight(request);
        if let Some(file) = request.registry.skills().file(&uri, |info| sight.sees_entry(info)) {
            return self.read_skill_file(request, file, out);
        }
        let found = request.registry.resource(&uri, |item| sight.sees(item));
        let Some(Found { function: item, variables }) = found else {
            return Err(Fault::ResourceNotFound(uri.into_owned()));
        };
        let strings = variables.into_iter().map(|(name, text)| (Cow::Borrowed(name), Cow::Owned(text)));
        let arguments = from_strings(&item.contract, strings);
        let subject = Subject { method: "resources/read", name: &uri, uri: &uri, hints: Hints::default() };
        self.call(request, item, subject, &arguments, out)
    }

    fn call(
        &self,
        request: &Request<'_>,
        item: &Function,
        subject: Subject<'_>,
        arguments: &str,
        out: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        let requester = self.requester(request, &subject, arguments, item.uses_context)?;
        self.call_by(request, item, subject, arguments, Ways { requester, ..Ways::default() }, out)
    }

    /// Calls a function that reaches its client in these ways.
    pub(super) fn call_by(
        &self,
        request: &Request<'_>,
        item: &Function,
        subject: Subject<'_>,
        arguments: &str,
        ways: Ways,
        out: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        let is_tool = subject.method == "tools/call";
        let wants_context = item.uses_context || ways.handoff.is_some();
        let next = self.engine.layers.around(item);
        let ends_here = next.is_none() && matches!(item.common.run, Run::Sync(_));
        let mut call = self.prepare(request, item.common, subject.name, is_tool, wants_context, ways)?;
        call.permit = self.admit(ends_here)?;
        if let Some(next) = next {
            let site = self.site(request, item, &subject, call.answering, call.context.clone());
            return Ok(call.drive_layered(next.start(layers::Call::new(site, arguments)), out));
        }
        let context = call.context.clone();
        let input = Input {
            arguments,
            contract: &item.contract,
            states: &self.engine.states,
            context: context.as_ref(),
            encoding: self.engine.encoding(request.speaker.dialect),
            uri: subject.uri,
        };
        Ok(call.run(&item.common.run, input, out))
    }

    /// What layers see of a call, and what calling its function needs.
    pub(super) fn site(
        &self,
        request: &Request<'_>,
        item: &Function,
        subject: &Subject<'_>,
        answering: Answering,
        context: Option<Arc<Context>>,
    ) -> Site {
        let Params { input_responses, request_state, .. } = request.params;
        Site {
            entry: item.info(),
            common: item.common,
            contract: Arc::clone(&item.contract),
            uses_context: item.uses_context,
            name: subject.name.into(),
            uri: subject.uri.into(),
            hints: subject.hints,
            caller: self.caller(request),
            is_continued: input_responses.is_some() || request_state.is_some(),
            id: request.id.to_owned(),
            answering,
            states: Arc::clone(&self.engine.states),
            context,
            forwards_log: self.engine.forwards_log,
            encoding: Arc::clone(self.engine.encoding(request.speaker.dialect)),
        }
    }

    /// Gives a call its place among those in work, or no more than looks for one where it ends before anything else begins.
    pub(super) fn admit(&self, ends_here: bool) -> Result<Option<Permit>, Fault> {
        let Some(source) = &self.source else { return Ok(None) };
        match ends_here {
            true => source.check_room().map(|()| None),
            false => source.admit().map(Some),
        }
    }

    /// Makes the call that a request is about to become, without a place.
    pub(super) fn prepare<'a>(
        &'a self,
        request: &Request<'a>,
        common: &'static Common,
        name: &str,
        is_tool: bool,
        uses_context: bool,
        ways: Ways,
    ) -> Result<Call<'a>, Fault> {
        self.check_in_flight()?;
        let timeout = common.timeout.or(self.engine.limits.timeout);
        Ok(Call {
            in_flight: &self.in_flight,
            outbox: &self.outbox,
            clock: &self.clock,
            encoding: self.engine.encoding(request.speaker.dialect),
            id: request.id.clone(),
            sink: request.sink,
            permit: None,
            context: (uses_context || self.engine.forwards_log).then(|| Arc::new(self.context(request, name, ways))),
            forwards_log: self.engine.forwards_log,
            answering: Answering { name: common.name, is_tool, timeout },
        })
    }

    /// Refuses a call where there are as many in flight as may be.
    pub(super) fn check_in_flight(&self) -> Result<(), Fault> {
        let most = self.engine.limits.in_flight;
        if self.in_flight.count() >= most {
            return Err(Fault::overloaded(format!("too many requests in flight, at most {most} may be")));
        }
        Ok(())
    }

    /// Says how a call asks its client, if its function has a way to.
    pub(super) fn requester(
        &self,
        request: &Request<'_>,
        subject: &Subject<'_>,
        arguments: &str,
        uses_context: bool,
    ) -> Result<Option<Arc<dyn ClientRequester>>, Fault> {
        let stateless = request.speaker.dialect.has(Feature::RequestMeta);
        if let Some(session) = self.session.as_ref().filter(|_| uses_context && !stateless) {
            return Ok(Some(Arc::new(Live {
                questions: Arc::clone(&session.questions),
                outbox: Arc::clone(&self.outbox),
                capabilities: Arc::clone(&session.capabilities),
                timeout: self.engine.limits.answer,
                most: self.engine.limits.in_flight,
                kept: Kept::default(),
            })));
        }
        let Params { input_responses, request_state, meta, .. } = request.params;
        if !stateless || !(uses_context || input_responses.is_some() || request_state.is_some()) {
            return Ok(None);
        }
        let binding = Binding {
            principal: self.source.as_ref().and_then(|source| source.principal()).map(Into::into),
            method: subject.method,
            name: subject.name.into(),
            arguments: arguments.into(),
        };
        let keys = &self.engine.state_keys;
        let retry = Retry::read(*input_responses, *request_state, keys, &binding)?;
        let encoding = self.engine.encoding(request.speaker.dialect);
        let capabilities = meta.client_capabilities.unwrap_or("{}");
        Ok(Some(Arc::new(Rounds::new(retry, capabilities, Arc::clone(keys), binding, Arc::clone(encoding)))))
    }

    pub(super) fn context(&self, request: &Request<'_>, name: &str, ways: Ways) -> Context {
        let Ways { requester, peer, task_status, handoff } = ways;
        let meta = &request.params.meta;
        let stateless = request.speaker.dialect.has(Feature::RequestMeta);
        Context::new(ContextParts {
            peer: peer.unwrap_or_else(|| Arc::clone(&self.outbox) as _),
            head: self.source.as_ref().map(|source| Arc::clone(source) as _),
            principal: self.source.as_ref().and_then(|source| source.principal()).map(Into::into),
            dialect: request.speaker.dialect,
            id: request.id.to_owned(),
            name: name.into(),
            progress_token: meta.progress_token().map(Into::into),
            log: if stateless { LogThreshold::Request(request.speaker.level) } else { LogThreshold::Session },
            meta: meta.whole.map(Into::into),
            client: self.client(request),
            requester,
            task_status,
            handoff,
        })
    }

    pub(super) fn env(&self, request: &Request<'_>, context: Option<Arc<Context>>) -> OwnedEnv {
        OwnedEnv {
            states: Arc::clone(&self.engine.states),
            context,
            completing: None,
            encoding: Arc::clone(self.engine.encoding(request.speaker.dialect)),
            structured: false,
            wraps: false,
            mime_type: None,
            uri: "".into(),
        }
    }
}

/// What a call is about.
pub(super) struct Subject<'a> {
    pub(super) method: &'static str,
    pub(super) name: &'a str,
    /// Empty where nothing is read.
    pub(super) uri: &'a str,
    pub(super) hints: Hints,
}

/// Runs a function of the server's own, on a thread of its own if it blocks.
pub(super) async fn produce(
    function: &'static ServerFnEntry,
    blocking: bool,
    env: OwnedEnv,
) -> Result<Produced, Refusal> {
    if !blocking {
        return (function.run)(env).await;
    }
    let runtime = tokio::runtime::Handle::current();
    let produced = on_a_thread(move || runtime.block_on((function.run)(env))).await;
    produced.unwrap_or_else(|| Err(Fault::internal("the server is shutting down").into()))
}

fn client_info(json: Option<&str>) -> Option<ClientInfo> {
    serde_json::from_str(json?).ok()
}
