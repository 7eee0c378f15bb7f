//! Completion.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    connection::Connection,
    dispatch::{Request, Ways, produce},
    params, results,
};
use crate::{
    error::Fault,
    handler::{
        Completing, Completions, EarlierArguments, Finished, OwnedEnv, Produced,
        entry::{Common, ServerFnEntry},
    },
    jsonrpc::raw,
    registry::Completed,
};

impl Connection {
    /// Completes an argument of a prompt or a variable of a template.
    ///
    /// See [Completion](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion).
    pub(super) fn complete(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<bool, Fault> {
        let missing = |name: &str| Fault::invalid_params(format!("`{name}` is missing"));
        let reference = request.params.member("ref").ok_or_else(|| missing("ref"))?;
        let (registry, sight) = (request.registry, self.sight(request));
        let item = match &*params::string(params::member(reference, "type"), "ref.type")? {
            "ref/prompt" => {
                let name = params::string(params::member(reference, "name"), "ref.name")?;
                match registry.prompt(&name).filter(|prompt| sight.sees(&prompt.function)) {
                    Some(prompt) => &prompt.function,
                    None => return Err(Fault::UnknownPrompt(name.into_owned())),
                }
            }
            "ref/resource" => {
                let uri = params::string(params::member(reference, "uri"), "ref.uri")?;
                match registry.reference(&uri, |item| sight.sees(item)) {
                    Some(item) => item,
                    None => return Err(Fault::InvalidParams(format!("unknown resource template: {uri}"))),
                }
            }
            other => {
                let why = format!("`ref.type` must be \"ref/prompt\" or \"ref/resource\", but it is {other:?}");
                return Err(Fault::InvalidParams(why));
            }
        };
        let argument = request.params.member("argument").ok_or_else(|| missing("argument"))?;
        let name = params::string(params::member(argument, "name"), "argument.name")?;
        let value = params::string(params::member(argument, "value"), "argument.value")?;
        let earlier = earlier_arguments(request.params.member("context"));
        match item.completed(&name) {
            None => {
                let known: Vec<_> = item.contract.arguments.iter().map(|known| format!("`{}`", known.name)).collect();
                let known = if known.is_empty() {
                    "it has none".to_owned()
                } else {
                    format!("expected one of {}", known.join(", "))
                };
                Err(Fault::InvalidParams(format!("unknown argument `{name}`, {known}")))
            }
            Some(Completed::By(function, uses_context)) => {
                let completing = Completing { value: Arc::from(&*value), earlier: Arc::new(earlier) };
                self.complete_by(request, item.common, function, uses_context, completing, out)
            }
            Some(Completed::From(values)) => {
                let prefix = value.to_lowercase();
                let matches = values.iter().filter(|candidate| candidate.to_lowercase().starts_with(&prefix));
                let encoding = self.engine.encoding(request.speaker.dialect);
                results::respond(out, request.id, &results::completions(encoding, &Completions::new(matches)));
                Ok(true)
            }
        }
    }

    fn complete_by(
        &self,
        request: &Request<'_>,
        common: &'static Common,
        function: &'static ServerFnEntry,
        uses_context: bool,
        completing: Completing,
        out: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        let mut call = self.prepare(request, common, "completion/complete", false, uses_context, Ways::default())?;
        call.permit = self.admit(false)?;
        let encoding = Arc::clone(self.engine.encoding(request.speaker.dialect));
        let env = OwnedEnv { completing: Some(completing), ..self.env(request, call.context.clone()) };
        let running = Box::pin(async move {
            match produce(function, common.blocking, env).await {
                Ok(Produced::Completions(found)) => {
                    Finished { body: results::completions(&encoding, &found), outcome: Ok(()) }
                }
                Ok(Produced::Resources(_)) => {
                    let body = results::completions(&encoding, &Completions::default());
                    Finished { body, outcome: Ok(()) }
                }
                Err(refusal) => Finished { body: Vec::new(), outcome: Err(refusal) },
            }
        });
        Ok(call.drive(running, out))
    }
}

fn earlier_arguments(context: Option<&str>) -> EarlierArguments {
    let arguments = context.and_then(|context| params::member(context, "arguments"));
    let strings = arguments.into_iter().flat_map(raw::members);
    let strings = strings.filter_map(|(name, json)| Some((name.into_owned(), raw::string(json)?.into_owned())));
    EarlierArguments(strings.collect::<BTreeMap<_, _>>())
}
