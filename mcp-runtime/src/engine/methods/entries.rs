//! Lists, `prompts/get`, `resources/read`, and the methods of the skills extension.
//!
//! The files of skills are ordinary resources as well, so every revision can list and read them.

use std::{borrow::Cow, sync::Arc, time::Duration};

use super::lifecycle;
#[cfg(feature = "ui")]
use crate::revision::Feature;
use crate::{
    auth::Scopes,
    engine::{
        call::{
            prepare::{admit, call_function, check_in_flight, method_call, share, timeout},
            running,
            server_fn::run_server_fn,
        },
        request::{
            context::{ListedTo, RequestContext, authorize, may_use},
            params,
        },
    },
    error::Fault,
    excerpt::excerpt,
    handler::{
        Call, Context, Finished, ServerFnInput, ServerFnOutput,
        entry::{EntryInfo, EntryKind},
        from_strings, member,
    },
    jsonrpc::{RawJson, raw},
    model::CacheScope,
    registry::{Found, ListKind, Node, Pager, ResourceLists, decode_offset, write_resources},
};

/// Responds with a page of a list. Pages that look the same to every caller are encoded once.
///
/// See [Pagination](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination).
pub(crate) fn list(request: &RequestContext<'_>, kind: ListKind, out: &mut Vec<u8>) -> Result<(), Fault> {
    let cursor = request.params.cursor()?;
    let (registry, listed) = (request.registry, ListedTo::sender_of(request));
    let depends_on_caller = kind == ListKind::Resources && registry.lists_resources();
    if depends_on_caller
        && let Some(functions) = registry.resource_lists(|function| listed.sees(function) && may_use(request, function))
    {
        return list_resources(request, cursor.as_deref(), functions, listed, out);
    }
    let mut pager = request.engine().pager(request.dialect());
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
    let encoded = if listed.is_limited() || depends_on_caller {
        None
    } else {
        registry.prepared_page(&pager, kind, cursor.as_deref())
    };
    if let Some(page) = encoded {
        running::write_result(out, request.id, page);
    } else {
        let page = registry.page(&pager, kind, cursor.as_deref(), |info, scopes| listed.includes(info, scopes))?;
        running::write_result(out, request.id, &page);
    }
    Ok(())
}

/// Lists the registered resources together with the resources that functions return.
fn list_resources(
    request: &RequestContext<'_>,
    cursor: Option<&str>,
    lists: ResourceLists,
    listed_to: ListedTo,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let (engine, registry) = (Arc::clone(&request.connection.engine), Arc::clone(request.registry));
    let dialect = request.dialect();
    let start = cursor.map_or(Ok(0), decode_offset)?;
    let ResourceLists { name, timeout: declared, functions, uses_context } = lists;
    check_in_flight(request)?;
    let call = method_call(request, name, timeout(request, declared));
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
        let encoding = engine.encoding(dialect);
        let sees = |info: &EntryInfo<'_>, scopes: Option<&Scopes>| listed_to.includes(info, scopes);
        let declared = engine.profile.list_caches[EntryKind::Resource as usize];
        let limits = (engine.profile.limits.page_size, declared.map_or(Duration::ZERO, |(ttl, _)| ttl));
        write_resources(registry.listed_resources(), &listed, encoding, start, limits, sees).into()
    });
    context.run_future(request, permit, running, out);
    Ok(())
}

/// Calls the function of a prompt.
///
/// See [Prompts](https://modelcontextprotocol.io/specification/2025-11-25/server/prompts).
pub(crate) fn get_prompt(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let name = params::string(request.params.name, "name")?;
    let visible = request.visible_to();
    let Some(prompt) = request.registry.prompt(&name).filter(|prompt| visible.sees(prompt)) else {
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
    let Some(function) = request.registry.method(method).filter(|function| visible.sees(function)) else {
        return lifecycle::dialect_method(method, request, out);
    };
    authorize(request, function)?;
    let mut arguments = vec![b'{'];
    for (name, json) in raw::members(request.params.json().map_or("{}", RawJson::text)) {
        if name != "_meta" {
            member(&mut arguments, &name, json.as_bytes());
        }
    }
    arguments.push(b'}');
    let arguments = String::from_utf8_lossy(&arguments);
    call_function(request, function, function.name.clone(), &arguments, out)
}

/// Calls the function of a resource, or returns a file of a skill.
///
/// See [Resources](https://modelcontextprotocol.io/specification/2025-11-25/server/resources).
pub(crate) fn read_resource(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let uri = params::string(request.params.uri, "uri")?;
    let visible = request.visible_to();
    let registry = request.registry;
    if let Some(file) = registry.skills().file(&uri, |info| visible.sees_entry(info)) {
        return read_file(request, file, out);
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
    let skills = request.registry.skills().all();
    let pager = request.engine().pager(request.dialect());
    let list = ("skills", "skills", EntryKind::Resource);
    let page = pager.page_of(list, skills, cursor.as_deref(), |info, _| visible.sees_entry(info))?;
    running::write_result(out, request.id, &page);
    Ok(())
}

/// Returns one skill.
pub(crate) fn get_skill(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let uri = params::string(request.params.uri, "uri")?;
    let visible = request.visible_to();
    let Some(skill) = request.registry.skills().skill(&uri, |info| visible.sees_entry(info)) else {
        return Err(Fault::ResourceNotFound(uri.into_owned()));
    };
    running::begin_result(out, request.id);
    skill.write(out, request.encoding(), request.engine().profile.limits.list_ttl);
    out.push(b'}');
    Ok(())
}

/// Lists the files in a directory of a skill.
pub(crate) fn read_directory(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let uri = params::string(request.params.uri, "uri")?;
    let (cursor, visible) = (request.params.cursor()?, request.visible_to());
    let skills = request.registry.skills();
    let sees = |info: &EntryInfo<'_>| visible.sees_entry(info);
    let Some(node) = skills.node(&uri, sees) else {
        return Err(Fault::ResourceNotFound(uri.into_owned()));
    };
    let Some(children) = skills.children(node) else {
        return Err(Fault::InvalidParams(format!("not a directory: {}", excerpt(&uri))));
    };
    let pager = Pager { caches: None, ..request.engine().pager(request.dialect()) };
    let list = (&*uri, "resources", EntryKind::Resource);
    let page = pager.page_of(list, &children, cursor.as_deref(), |info, _| sees(info))?;
    running::write_result(out, request.id, &page);
    Ok(())
}

/// Answers `resources/read` with a file of a skill. Such files do not change while the server runs.
pub(crate) fn read_file(request: &RequestContext<'_>, file: &Node, out: &mut Vec<u8>) -> Result<(), Fault> {
    running::begin_result(out, request.id);
    file.write(out, request.encoding(), request.engine().profile.limits.list_ttl);
    out.push(b'}');
    Ok(())
}
