//! Reads the members of `params` that the engine itself understands.

use std::borrow::Cow;

use crate::{
    error::Fault,
    jsonrpc::{Object, raw},
    model::Level,
    revision::Dialect,
};

/// The members of `params` that the frequent methods have, as JSON.
#[derive(Default)]
pub(super) struct Params<'a> {
    /// The whole object, for what is asked for rarely.
    whole: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) uri: Option<&'a str>,
    pub(super) arguments: Option<&'a str>,
    /// What a client answered that was asked for input.
    pub(super) input_responses: Option<&'a str>,
    pub(super) request_state: Option<&'a str>,
    /// The task that a client wants a call to be.
    pub(super) task: Option<&'a str>,
    pub(super) meta: Meta<'a>,
}

/// The members of `_meta` that the protocol defines, as JSON.
#[derive(Default)]
pub(super) struct Meta<'a> {
    pub(super) whole: Option<&'a str>,
    pub(super) progress_token: Option<&'a str>,
    pub(super) protocol_version: Option<&'a str>,
    pub(super) client_capabilities: Option<&'a str>,
    pub(super) client_info: Option<&'a str>,
    pub(super) log_level: Option<&'a str>,
}

impl<'a> Params<'a> {
    pub(super) fn read(object: Option<&Object<'a>>) -> Self {
        let mut params = Self { whole: object.map(Object::json), ..Self::default() };
        for (name, value) in object.into_iter().flat_map(Object::members) {
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

    /// The JSON of what a request is about, if its method is about something with a name.
    pub(super) fn subject(&self, method: &str) -> Option<&'a str> {
        match method {
            "tools/call" | "prompts/get" => self.name,
            "resources/read" => self.uri,
            "tasks/get" | "tasks/update" | "tasks/cancel" => self.member("taskId"),
            _ => None,
        }
    }

    /// A member of any name, as JSON.
    pub(super) fn member(&self, name: &str) -> Option<&'a str> {
        member(self.whole?, name)
    }

    /// A member that must be a string.
    pub(super) fn string(&self, name: &str) -> Result<Cow<'a, str>, Fault> {
        string(self.member(name), name)
    }

    /// The arguments of a call: an object, or nothing.
    pub(super) fn arguments(&self) -> Result<&'a str, Fault> {
        match self.arguments {
            None | Some("null") => Ok("{}"),
            Some(arguments) if raw::kind(arguments) == raw::Kind::Object => Ok(arguments),
            Some(_) => Err(Fault::invalid_params("`arguments` must be an object")),
        }
    }

    /// The cursor of a list, if there is one.
    pub(super) fn cursor(&self) -> Result<Option<Cow<'a, str>>, Fault> {
        match self.member("cursor") {
            None | Some("null") => Ok(None),
            Some(json) => string(Some(json), "cursor").map(Some),
        }
    }
}

impl<'a> Meta<'a> {
    fn read(whole: &'a str) -> Self {
        let mut meta = Self { whole: Some(whole), ..Self::default() };
        for (name, value) in raw::members(whole) {
            match &*name {
                "progressToken" => meta.progress_token = Some(value),
                "io.modelcontextprotocol/protocolVersion" => meta.protocol_version = Some(value),
                "io.modelcontextprotocol/clientCapabilities" => meta.client_capabilities = Some(value),
                "io.modelcontextprotocol/clientInfo" => meta.client_info = Some(value),
                "io.modelcontextprotocol/logLevel" => meta.log_level = Some(value),
                _ => {}
            }
        }
        meta
    }

    /// The JSON of the token that progress is to be told under: a string or an integer.
    pub(super) fn progress_token(&self) -> Option<&'a str> {
        self.progress_token.filter(|token| crate::jsonrpc::Id::from_json(token).is_some())
    }

    /// Checks what every stateless request must carry, and finds the dialect that it is in.
    ///
    /// See [`_meta`](https://modelcontextprotocol.io/specification/2026-07-28/basic#meta).
    pub(super) fn stateless(&self) -> Result<(&'static Dialect, Option<Level>), Fault> {
        let version = string(self.protocol_version, "_meta.io.modelcontextprotocol/protocolVersion")?;
        let Some(dialect) = crate::revision::stateless(&version) else {
            return Err(Fault::UnsupportedVersion { requested: version.into_owned() });
        };
        if self.client_capabilities.is_none_or(|json| raw::kind(json) != raw::Kind::Object) {
            let why = "`_meta.io.modelcontextprotocol/clientCapabilities` must be an object";
            return Err(Fault::invalid_params(why));
        }
        let level = self.log_level.map(|json| level(Some(json), "_meta.io.modelcontextprotocol/logLevel"));
        Ok((dialect, level.transpose()?))
    }
}

/// Finds a member of an object: of several the last one, which is the one that arguments are decoded from as well. What HTTP repeats in a
/// header must be compared with that one.
pub(super) fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    raw::members(object).filter_map(|(key, value)| (key == name).then_some(value)).last()
}

/// Reads a string that must be there.
pub(super) fn string<'a>(json: Option<&'a str>, name: &str) -> Result<Cow<'a, str>, Fault> {
    let json = json.ok_or_else(|| Fault::invalid_params(format!("`{name}` is missing")))?;
    raw::string(json).ok_or_else(|| Fault::invalid_params(format!("`{name}` must be a string")))
}

/// Reads a log level that must be there.
pub(super) fn level(json: Option<&str>, name: &str) -> Result<Level, Fault> {
    string(json, name)?.parse().map_err(|why| Fault::invalid_params(format!("`{name}`: {why}")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_last_of_several_members_counts() {
        for (object, found) in [
            (r#"{"a":1}"#, Some("1")),
            (r#"{"a":1,"b":2,"\u0061":3}"#, Some("3")),
            (r#"{"b":{"a":1}}"#, None),
            ("[]", None),
        ] {
            assert_eq!(super::member(object, "a"), found, "{object}");
        }
    }
}
