//! The methods of tools, prompts, resources, skills and extensions: lists, and calls of their functions. Also the
//! scopes that such a request requires, determined without handling it.
//!
//! The files of skills are ordinary resources as well, so every revision can list and read them.

use std::{borrow::Cow, sync::Arc, time::Duration};

use super::completion;
use crate::{
    auth::Scopes,
    engine::{
        call::{
            prepare::{admit, call_function, check_in_flight, method_call, share, timeout},
            response,
            running::run_server_fn,
        },
        listener::Filter,
        request::{
            context::{ListedTo, RequestContext, authorize, may_use},
            params::{self, Method},
        },
        tasks,
    },
    error::{Fault, excerpt},
    handler::{
        Call, Context, Finished, Function, ServerFnInput, ServerFnOutput,
        entry::{EntryInfo, EntryKind, ServerFnEntry},
        from_strings, takes_context,
    },
    jsonrpc::{RawJson, raw},
    model::CacheScope,
    registry::{Found, ListKind, ListSet, Pager, last_key},
    revision::{Feature, encode::Object},
};

/// Responds with a page of a list. A first page that looks the same to every caller is encoded once.
///
/// See [Pagination](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination).
pub(crate) fn list(request: &RequestContext<'_>, kind: ListKind, out: &mut Vec<u8>) -> Result<(), Fault> {
    let cursor = request.params.cursor()?;
    let (registry, listed) = (request.registry, ListedTo::sender_of(request));
    let depends_on_caller = kind == ListKind::Resources && registry.listing().next().is_some();
    if depends_on_caller {
        let lists: Vec<_> =
            registry.listing().filter(|(template, _)| listed.sees(template) && may_use(request, template)).collect();
        if let Some((first, _)) = lists.first() {
            // The name and the timeout of the first function apply to all of them together.
            let call = method_call(request, first.name.clone(), timeout(request, first.common().timeout));
            return list_resources(request, cursor, call, &lists, listed, out);
        }
    }
    let mut pager = request.engine().pager(request.dialect);
    #[cfg(feature = "ui")]
    let kind = if registry.has_app_only_tools {
        // A cache cannot tell which clients show pages.
        pager.caches.iter_mut().for_each(|caches| caches[EntryKind::Tool as usize].1 = CacheScope::Private);
        // A client that shows pages hides these tools from its model itself, if it can read their visibility.
        let hides = kind == ListKind::Tools && !(request.has(Feature::ItemMeta) && request.shows_pages());
        if hides { ListKind::ModelTools } else { kind }
    } else {
        kind
    };
    if depends_on_caller {
        // Other callers also see what functions list.
        pager.caches.iter_mut().flatten().for_each(|(_, scope)| *scope = CacheScope::Private);
    }
    if cursor.is_none() && !listed.is_limited() && !depends_on_caller {
        response::write_result(out, request.id, registry.first_page(&pager, kind));
    } else {
        let page = registry.page(&pager, kind, cursor.as_deref(), |info, scopes| listed.includes(info, scopes))?;
        response::write_result(out, request.id, &page);
    }
    Ok(())
}

/// Lists the registered resources together with the resources that functions return, in one call.
fn list_resources(
    request: &RequestContext<'_>,
    cursor: Option<Cow<'_, str>>,
    call: Call,
    lists: &[(&Arc<Function>, ServerFnEntry)],
    listed_to: ListedTo,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    // An invalid cursor is rejected before the functions run.
    cursor.as_deref().map(|cursor| last_key("resources", cursor)).transpose()?;
    let (engine, registry) = (Arc::clone(&request.connection.engine), Arc::clone(request.registry));
    let (dialect, cursor) = (request.dialect, cursor.map(Cow::into_owned));
    let functions: Vec<_> = lists.iter().map(|(template, list)| (*list, template.common().blocking)).collect();
    let uses_context = lists.iter().any(|(_, list)| takes_context(list));
    check_in_flight(request)?;
    let context = Context::new(share(request, Call { subject: "resources/list".into(), ..call }, uses_context, false));
    let permit = admit(request)?;
    let input = ServerFnInput { context: context.clone(), completed: None };
    let running = Box::pin(async move {
        let mut listed = Vec::new();
        for (function, blocking) in functions {
            match run_server_fn(function, blocking, input.clone()).await {
                Ok(ServerFnOutput::Resources(resources)) => listed.extend(resources),
                Ok(ServerFnOutput::Completions(_)) => {}
                Err(error) => return Finished::failed(error),
            }
        }
        let mut pager = engine.pager(dialect);
        let declared = engine.profile.list_caches[EntryKind::Resource as usize];
        // The functions may list different resources to each caller.
        let hint = (declared.map_or(Duration::ZERO, |(ttl, _)| ttl), CacheScope::Private);
        pager.caches.iter_mut().for_each(|caches| caches[EntryKind::Resource as usize] = hint);
        let sees = |info: &EntryInfo<'_>, scopes: Option<&Scopes>| listed_to.includes(info, scopes);
        let list = ("resources", "resources", EntryKind::Resource);
        pager.page_of(list, &registry.listed_resources(&listed), cursor.as_deref(), sees).into()
    });
    context.run_future(request, permit, running, out);
    Ok(())
}

/// Calls the function of a tool: as a plain call, as a task, or as a call that may become a task.
///
/// See [Tools](https://modelcontextprotocol.io/specification/2025-11-25/server/tools).
pub(crate) fn call_tool(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let name = params::string(request.params.name, "name")?;
    let visible = request.visible_to();
    let Some(tool) = request.registry.tools.get(&name).filter(|tool| visible.sees(tool)) else {
        return Err(Fault::UnknownTool(name.into_owned()));
    };
    authorize(request, tool)?;
    let arguments = request.params.arguments()?;
    check_headers(request, tool, arguments)?;
    tasks::call_tool(request, tool, arguments, out)
}

/// Compares the arguments that the transport repeats in headers with the arguments in the message.
fn check_headers(request: &RequestContext<'_>, tool: &Function, arguments: &str) -> Result<(), Fault> {
    let source = request.connection.source.as_ref().filter(|_| request.has(Feature::RequestMeta));
    let Some(source) = source.filter(|_| !tool.contract.headers().is_empty()) else { return Ok(()) };
    let value = |path: &[String]| path.iter().try_fold(arguments, |json, name| raw::member(json, name));
    let mirrored = tool.contract.headers().iter().map(|header| (header.name.as_str(), value(&header.path)));
    source.check_arguments(&mirrored.collect::<Vec<_>>())
}

/// Calls the function of a prompt.
///
/// See [Prompts](https://modelcontextprotocol.io/specification/2025-11-25/server/prompts).
pub(crate) fn get_prompt(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let name = params::string(request.params.name, "name")?;
    let visible = request.visible_to();
    let Some(prompt) = request.registry.prompts.get(&name).filter(|prompt| visible.sees(prompt)) else {
        return Err(Fault::UnknownPrompt(name.into_owned()));
    };
    authorize(request, prompt)?;
    let mut strings = Vec::new();
    for (argument, json) in raw::members(request.params.arguments()?) {
        let Some(text) = raw::string(json) else {
            let (argument, json) = (excerpt(&argument), excerpt(json));
            let message = format!("the argument `{argument}` of a prompt must be a string, but it is {json}");
            return Err(Fault::InvalidParams(message));
        };
        strings.push((argument, text));
    }
    let arguments = from_strings(&prompt.contract, strings);
    call_function(request, prompt, prompt.name.clone(), &arguments, out)
}

/// Calls the function of a method that an extension or the dialect defines.
pub(crate) fn call_method(method: &str, request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let visible = request.visible_to();
    let Some(function) = request.registry.methods.get(method).filter(|function| visible.sees(function)) else {
        return dialect_method(method, request, out);
    };
    authorize(request, function)?;
    let mut arguments = Vec::new();
    let mut object = Object::begin(&mut arguments);
    object.copy_without(request.params.whole.map_or("{}", RawJson::text), "_meta");
    object.end();
    let arguments = String::from_utf8_lossy(&arguments);
    call_function(request, function, function.name.clone(), &arguments, out)
}

/// Answers a method that is declared by the dialect of the request.
fn dialect_method(method: &str, request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let Some(respond) = request.dialect.method(method) else {
        return Err(Fault::MethodNotFound(method.to_owned()));
    };
    let mut result = Vec::new();
    respond(request.params.whole, &mut Object::begin(&mut result))?;
    request.encoding().end_result(&mut result, None);
    response::write_result(out, request.id, &result);
    Ok(())
}

/// Calls the function of a resource, or returns a file of a skill, which does not change while the server runs.
///
/// See [Resources](https://modelcontextprotocol.io/specification/2025-11-25/server/resources).
pub(crate) fn read_resource(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let uri = params::string(request.params.uri, "uri")?;
    let visible = request.visible_to();
    let registry = request.registry;
    if let Some(file) = registry.skills.file(&uri, |info| visible.sees_entry(info)) {
        response::begin_result(out, request.id);
        file.write(out, request.encoding(), request.engine().profile.limits.list_ttl);
        out.push(b'}');
        return Ok(());
    }
    let Some(Found { function, variables }) = registry.resource(&uri, |function| visible.sees(function)) else {
        return Err(Fault::ResourceNotFound(uri.into_owned()));
    };
    authorize(request, function)?;
    let strings = variables.into_iter().map(|(name, text)| (Cow::Borrowed(name), Cow::Owned(text)));
    let arguments = from_strings(&function.contract, strings);
    call_function(request, function, uri.into_owned().into(), &arguments, out)
}

/// Lists the skills.
pub(crate) fn list_skills(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (cursor, visible) = (request.params.cursor()?, request.visible_to());
    let skills = request.registry.skills.all();
    let pager = request.engine().pager(request.dialect);
    let list = ("skills", "skills", EntryKind::Resource);
    let page = pager.page_of(list, skills, cursor.as_deref(), |info, _| visible.sees_entry(info))?;
    response::write_result(out, request.id, &page);
    Ok(())
}

/// Returns one skill.
pub(crate) fn get_skill(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let uri = params::string(request.params.uri, "uri")?;
    let visible = request.visible_to();
    let Some(skill) = request.registry.skills.skill(&uri, |info| visible.sees_entry(info)) else {
        return Err(Fault::ResourceNotFound(uri.into_owned()));
    };
    response::begin_result(out, request.id);
    skill.write(out, request.encoding(), request.engine().profile.limits.list_ttl);
    out.push(b'}');
    Ok(())
}

/// Lists the files in a directory of a skill.
pub(crate) fn read_directory(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let uri = params::string(request.params.uri, "uri")?;
    let (cursor, visible) = (request.params.cursor()?, request.visible_to());
    let skills = &request.registry.skills;
    let sees = |info: &EntryInfo<'_>| visible.sees_entry(info);
    let Some(node) = skills.node(&uri, sees) else {
        return Err(Fault::ResourceNotFound(uri.into_owned()));
    };
    let Some(children) = skills.children(node) else {
        return Err(Fault::InvalidParams(format!("not a directory: {}", excerpt(&uri))));
    };
    let pager = Pager { caches: None, ..request.engine().pager(request.dialect) };
    let list = (&*uri, "resources", EntryKind::Resource);
    let page = pager.page_of(list, &children, cursor.as_deref(), |info, _| sees(info))?;
    response::write_result(out, request.id, &page);
    Ok(())
}

/// Returns the scopes of the functions that a request would use. An invalid request requires none.
pub(crate) fn required_scopes<'a>(name: &str, request: &RequestContext<'a>) -> Scopes {
    use Method::*;

    let registry = request.registry;
    if !registry.requires_scopes {
        return Scopes::default();
    }
    let visible = request.visible_to();
    let sees = |function: &Function| visible.sees(function);
    let subject = || params::string(request.params.name, "name").ok();
    let seen = |function: Option<&'a Arc<Function>>| function.filter(|function| sees(function));
    let resource = |uri: &str| Some(registry.resource(uri, sees)?.function);
    let functions: Vec<&Arc<Function>> = match Method::named(name) {
        Some(CallTool) => Vec::from_iter(seen(subject().and_then(|name| registry.tools.get(&name)))),
        Some(GetPrompt) => Vec::from_iter(seen(subject().and_then(|name| registry.prompts.get(&name)))),
        Some(ReadResource | Subscribe) => {
            let uri = params::string(request.params.uri, "uri").ok();
            Vec::from_iter(uri.and_then(|uri| resource(&uri)))
        }
        Some(Complete) => Vec::from_iter(completion::referenced_function(request).map(|(_, function)| function)),
        Some(Listen) => {
            let uris = Filter::read(request.params, ListSet::listed_in(request.dialect))
                .ok()
                .and_then(|filter| filter.resources);
            uris.iter().flatten().filter_map(|uri| resource(uri)).collect()
        }
        // These methods use no functions, and extensions may define the methods that the server does not offer.
        None
        | Some(
            ListTools | ListResources | ListTemplates | ListPrompts | Unsubscribe | ReadDirectory | Ping | Initialize
            | Discover | SetLevel | ListSkills | GetSkill | GetTask | TaskResult | ListTasks | CancelTask | UpdateTask
            | Initialized | Cancelled | Progress | RootsChanged | Elicit | Sample | ListRoots,
        ) => Vec::from_iter(seen(registry.methods.get(name))),
    };
    let scopes = functions.iter().filter_map(|function| function.scopes.as_ref());
    scopes.fold(Scopes::default(), |all, scopes| all.and(scopes.clone()))
}
