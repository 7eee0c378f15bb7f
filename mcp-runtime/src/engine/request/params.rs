//! The method of a message, the members of its `params`, and its dialect.

use std::borrow::Cow;

use super::source::{MirroredFields, RequestSource};
use crate::{
    error::Fault,
    jsonrpc::{MAX_ID_BYTES, Object, RawJson, raw},
    model::Level,
    revision::{self, Dialect, Feature},
};

/// The maximum size of the capabilities that a client declares. A session stores them, and functions read them.
pub(crate) const MAX_CAPABILITIES_BYTES: usize = 64 * 1024;

/// The extension by which clients declare in `_meta` that they support tasks.
pub(crate) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The JSON of the members of `params` that frequently called methods read.
#[derive(Default)]
pub(crate) struct Params<'a> {
    /// The whole object, for rarely used members.
    pub(crate) whole: Option<RawJson<'a>>,
    pub(crate) name: Option<RawJson<'a>>,
    pub(crate) uri: Option<RawJson<'a>>,
    pub(crate) arguments: Option<RawJson<'a>>,
    /// The client's answers to requests for input.
    pub(crate) input_responses: Option<RawJson<'a>>,
    pub(crate) request_state: Option<RawJson<'a>>,
    /// The client's request to run the call as a task.
    pub(crate) task: Option<RawJson<'a>>,
    pub(crate) meta: Meta<'a>,
}

/// The JSON of the members of `_meta` that the protocol defines.
#[derive(Default)]
pub(crate) struct Meta<'a> {
    pub(crate) whole: Option<RawJson<'a>>,
    pub(crate) progress_token: Option<RawJson<'a>>,
    pub(crate) protocol_version: Option<RawJson<'a>>,
    pub(crate) client_capabilities: Option<RawJson<'a>>,
    pub(crate) client_info: Option<RawJson<'a>>,
    pub(crate) log_level: Option<RawJson<'a>>,
    /// `traceparent`, `tracestate` and `baggage`.
    pub(crate) trace: [Option<RawJson<'a>>; 3],
}

impl<'a> Params<'a> {
    pub(crate) fn read(object: Option<&Object<'a>>) -> Self {
        let mut params = Self { whole: object.map(|object| RawJson::new(object.json())), ..Self::default() };
        for (name, value) in object.into_iter().flat_map(Object::members) {
            let value = RawJson::new(value);
            match &*name {
                "name" => params.name = Some(value),
                "arguments" => params.arguments = Some(value),
                "uri" => params.uri = Some(value),
                "inputResponses" => params.input_responses = Some(value),
                "requestState" => params.request_state = Some(value),
                "task" => params.task = Some(value),
                "_meta" => params.meta = Meta::read(value),
                _ => {}
            }
        }
        params
    }

    /// Returns the JSON of the name, URI or id that a request refers to, if HTTP repeats it in a header.
    pub(crate) fn subject(&self, method: &str) -> Option<RawJson<'a>> {
        match Method::named(method)?.subject() {
            Subject::Name => self.name,
            Subject::Uri => self.uri,
            Subject::Task => self.member("taskId"),
            Subject::UnmirroredUri | Subject::Absent => None,
        }
    }

    /// Determines the dialect of a request: the version that the request names, or else the version of its session.
    ///
    /// See [Versioning](https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning).
    ///
    /// # Errors
    ///
    /// Returns a fault if the version is missing or unsupported, or if it contradicts the version that the transport
    /// names.
    pub(crate) fn dialect(
        &self,
        session: Option<&'static Dialect>,
        source: Option<&dyn RequestSource>,
        method: &str,
    ) -> Result<&'static Dialect, Fault> {
        if let Some(version) = self.meta.protocol_version {
            if let Some(source) = source {
                source.check_request(&MirroredFields { version, method, subject: self.subject(method) })?;
            }
            return self.meta.stateless();
        }
        if let Some(dialect) = session {
            return Ok(dialect);
        }
        if let Some(source) = source {
            source.check_unversioned()?;
        }
        match method {
            "initialize" | "ping" => Ok(revision::newest_handshake()),
            _ => Err(Fault::invalid_params(
                "`_meta.io.modelcontextprotocol/protocolVersion` is missing, and no session was opened with `initialize`",
            )),
        }
    }

    /// Determines the dialect of a notification, which need not name a version.
    ///
    /// # Errors
    ///
    /// Returns a fault if there is neither a session nor a stateless revision.
    pub(crate) fn notification_dialect(
        &self,
        session: Option<&'static Dialect>,
        source: Option<&dyn RequestSource>,
    ) -> Result<&'static Dialect, Fault> {
        let of_source = || source.map_or(Some(revision::newest()), RequestSource::notification_dialect);
        let dialect = session.or_else(of_source).ok_or_else(|| Fault::invalid_params("no session was opened"))?;
        self.meta.protocol_version.map_or(Ok(dialect), |_| self.meta.stateless())
    }

    /// Returns the JSON of any member.
    pub(crate) fn member(&self, name: &str) -> Option<RawJson<'a>> {
        self.whole?.member(name)
    }

    /// Returns a member that must be a string.
    ///
    /// # Errors
    ///
    /// Returns a fault if the member is missing or not a string.
    pub(crate) fn string(&self, name: &str) -> Result<Cow<'a, str>, Fault> {
        string(self.member(name), name)
    }

    /// Returns the arguments of a call, which default to an empty object.
    ///
    /// # Errors
    ///
    /// Returns a fault if they are not an object.
    pub(crate) fn arguments(&self) -> Result<&'a str, Fault> {
        match self.arguments {
            Some(arguments) if arguments.is_object() => Ok(arguments.text()),
            Some(arguments) if !arguments.is_null() => Err(Fault::invalid_params("`arguments` must be an object")),
            _ => Ok("{}"),
        }
    }

    /// Returns the answers to the questions of an earlier round, if there are any.
    ///
    /// # Errors
    ///
    /// Returns a fault if they are not an object.
    pub(crate) fn input_responses(&self) -> Result<Option<RawJson<'a>>, Fault> {
        let responses = self.input_responses.filter(|json| !json.is_null());
        if responses.is_some_and(|json| !json.is_object()) {
            return Err(Fault::invalid_params("`inputResponses` must be an object"));
        }
        Ok(responses)
    }

    /// Returns the state of an earlier round, if there is one.
    ///
    /// # Errors
    ///
    /// Returns a fault if it is not a string.
    pub(crate) fn request_state(&self) -> Result<Option<Cow<'a, str>>, Fault> {
        let state = self.request_state.filter(|json| !json.is_null());
        let not_a_string = || Fault::invalid_params("`requestState` must be a string");
        state.map(|json| json.string().ok_or_else(not_a_string)).transpose()
    }

    /// Returns the cursor of a list, if there is one.
    ///
    /// # Errors
    ///
    /// Returns a fault if it is not a string.
    pub(crate) fn cursor(&self) -> Result<Option<Cow<'a, str>>, Fault> {
        let cursor = self.member("cursor").filter(|json| !json.is_null());
        cursor.map(|json| string(Some(json), "cursor")).transpose()
    }
}

/// Returns the error of a state that is invalid, has expired, or belongs to another request. The reason is logged and
/// not sent to the client.
pub(crate) fn invalid_request_state(reason: &'static str) -> Fault {
    tracing::warn!(reason, "rejected a `requestState`");
    Fault::invalid_params("`requestState` is invalid for this request or has expired: retry without it")
}

impl<'a> Meta<'a> {
    pub(crate) fn read(whole: RawJson<'a>) -> Self {
        let mut meta = Self { whole: Some(whole), ..Self::default() };
        for (name, value) in raw::members(whole.text()) {
            let value = RawJson::new(value);
            match &*name {
                "progressToken" => meta.progress_token = Some(value),
                "io.modelcontextprotocol/protocolVersion" => meta.protocol_version = Some(value),
                "io.modelcontextprotocol/clientCapabilities" => meta.client_capabilities = Some(value),
                "io.modelcontextprotocol/clientInfo" => meta.client_info = Some(value),
                "io.modelcontextprotocol/logLevel" => meta.log_level = Some(value),
                "traceparent" => meta.trace[0] = Some(value),
                "tracestate" => meta.trace[1] = Some(value),
                "baggage" => meta.trace[2] = Some(value),
                _ => {}
            }
        }
        meta
    }

    /// Checks the size of the progress token, which the server repeats in each progress notification.
    ///
    /// # Errors
    ///
    /// Returns a fault if it exceeds [`MAX_ID_BYTES`].
    pub(crate) fn check_progress_token(&self) -> Result<(), Fault> {
        match self.progress_token {
            Some(token) if token.text().len() > MAX_ID_BYTES => {
                Err(Fault::invalid_params(format!("`_meta.progressToken` must have at most {MAX_ID_BYTES} bytes")))
            }
            _ => Ok(()),
        }
    }

    /// Checks the mandatory members of a stateless request. Returns its dialect.
    ///
    /// See [`_meta`](https://modelcontextprotocol.io/specification/2026-07-28/basic#meta).
    ///
    /// # Errors
    ///
    /// Returns a fault if a member is missing or invalid, or if the version is unsupported.
    fn stateless(&self) -> Result<&'static Dialect, Fault> {
        let version = string(self.protocol_version, "_meta.io.modelcontextprotocol/protocolVersion")?;
        let Some(dialect) = revision::stateless(&version) else {
            return Err(Fault::UnsupportedVersion { requested: version.into_owned() });
        };
        if self.client_capabilities.is_none_or(|json| !json.is_object()) {
            let message = "`_meta.io.modelcontextprotocol/clientCapabilities` must be an object";
            return Err(Fault::invalid_params(message));
        }
        check_capabilities(self.client_capabilities, "_meta.io.modelcontextprotocol/clientCapabilities")?;
        if let Some(json) = self.log_level {
            level(Some(json), "_meta.io.modelcontextprotocol/logLevel")?;
        }
        Ok(dialect)
    }

    /// Returns the log level of a stateless request, which is valid if its dialect could be determined.
    pub(crate) fn level(&self) -> Option<Level> {
        self.protocol_version.and(self.log_level)?.string()?.parse().ok()
    }
}

/// Checks the size of the client's capabilities. `name` is for error messages.
///
/// # Errors
///
/// Returns a fault if they exceed [`MAX_CAPABILITIES_BYTES`].
pub(crate) fn check_capabilities(json: Option<RawJson<'_>>, name: &str) -> Result<(), Fault> {
    match json.map(RawJson::text) {
        Some(json) if json.len() > MAX_CAPABILITIES_BYTES => Err(Fault::invalid_params(format!(
            "`{name}` has {} bytes, expected at most {MAX_CAPABILITIES_BYTES}",
            json.len()
        ))),
        _ => Ok(()),
    }
}

/// Decodes a mandatory string. `name` is for error messages.
///
/// # Errors
///
/// Returns a fault if it is missing or not a string.
pub(crate) fn string<'a>(json: Option<RawJson<'a>>, name: &str) -> Result<Cow<'a, str>, Fault> {
    let json = json.ok_or_else(|| Fault::invalid_params(format!("`{name}` is missing")))?;
    json.string().ok_or_else(|| Fault::invalid_params(format!("`{name}` must be a string")))
}

/// Decodes a mandatory log level. `name` is for error messages.
///
/// # Errors
///
/// Returns a fault if it is missing or not a log level.
pub(crate) fn level(json: Option<RawJson<'_>>, name: &str) -> Result<Level, Fault> {
    string(json, name)?.parse().map_err(|error| Fault::invalid_params(format!("`{name}`: {error}")))
}

/// The member of `params` that names what a request refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// There is none.
    Absent,
    /// `name`, which HTTP repeats in a header.
    Name,
    /// `uri`, which HTTP repeats in a header.
    Uri,
    /// `uri`, which only the message contains.
    UnmirroredUri,
    /// `taskId`, which HTTP repeats in a header.
    Task,
}

/// Defines the methods: their names, their subjects, and the features of which a revision needs one to have the method.
/// All revisions have a method without features.
macro_rules! methods {
    ($($method:ident = $name:literal, $subject:ident, [$($feature:ident),*];)*) => {
        /// A method of the protocol: of a request, of a notification, or of a request to the client.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Method {
            $($method,)*
        }

        impl Method {
            #[inline]
            pub(crate) fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$method),)*
                    _ => None,
                }
            }

            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$method => $name,)*
                }
            }

            pub(crate) const fn subject(self) -> Subject {
                match self {
                    $(Self::$method => Subject::$subject,)*
                }
            }

            /// Returns whether a dialect has the method.
            #[inline]
            pub(crate) fn is_in(self, dialect: &Dialect) -> bool {
                let features: &[Feature] = match self {
                    $(Self::$method => &[$(Feature::$feature),*],)*
                };
                features.is_empty() || features.iter().any(|feature| dialect.has(*feature))
            }
        }
    };
}

methods! {
    CallTool = "tools/call", Name, [];
    ListTools = "tools/list", Absent, [];
    ReadResource = "resources/read", Uri, [];
    ListResources = "resources/list", Absent, [];
    ListTemplates = "resources/templates/list", Absent, [];
    Subscribe = "resources/subscribe", UnmirroredUri, [ResourceSubscriptions];
    Unsubscribe = "resources/unsubscribe", UnmirroredUri, [ResourceSubscriptions];
    ReadDirectory = "resources/directory/read", UnmirroredUri, [SkillsExtension];
    GetPrompt = "prompts/get", Name, [];
    ListPrompts = "prompts/list", Absent, [];
    Complete = "completion/complete", Absent, [];
    Ping = "ping", Absent, [Ping];
    Initialize = "initialize", Absent, [Handshake];
    Discover = "server/discover", Absent, [RequestMeta];
    SetLevel = "logging/setLevel", Absent, [LogLevel];
    ListSkills = "skills/list", Absent, [SkillsExtension];
    GetSkill = "skills/get", UnmirroredUri, [SkillsExtension];
    Listen = "subscriptions/listen", Absent, [Listening];
    GetTask = "tasks/get", Task, [SessionTasks, TaskExtension];
    TaskResult = "tasks/result", Absent, [SessionTasks];
    ListTasks = "tasks/list", Absent, [SessionTasks];
    CancelTask = "tasks/cancel", Task, [SessionTasks, TaskExtension];
    UpdateTask = "tasks/update", Task, [TaskExtension];
    Initialized = "notifications/initialized", Absent, [];
    Cancelled = "notifications/cancelled", Absent, [];
    Progress = "notifications/progress", Absent, [];
    RootsChanged = "notifications/roots/list_changed", Absent, [];
    // Requests to the client.
    Elicit = "elicitation/create", Absent, [];
    Sample = "sampling/createMessage", Absent, [];
    ListRoots = "roots/list", Absent, [];
}
