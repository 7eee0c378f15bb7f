//! `tools/list`, `prompts/list`, `resources/list` and `resources/templates/list`.

use std::sync::Arc;

use crate::{
    auth::Scopes,
    engine::{
        call::{
            prepare::{admit, context_parts, prepare, run_server_fn, server_fn_env},
            response,
        },
        request::{
            access::{ListedTo, may_use},
            context::RequestContext,
        },
    },
    error::Fault,
    handler::{Finished, ServerFnOutput, entry::EntryInfo},
    registry::{ListKind, ResourceLists, decode_offset, write_resources},
};

/// Responds with a page of a list. Pages that look the same to every caller are encoded once.
///
/// See [Pagination](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination).
pub(crate) fn list(request: &RequestContext<'_>, kind: ListKind, out: &mut Vec<u8>) -> Result<(), Fault> {
    let cursor = request.params.cursor()?;
    let (registry, listed) = (request.registry, ListedTo::sender_of(request));
    if kind == ListKind::Resources
        && registry.lists_resources()
        && let Some(functions) = registry.resource_lists(|function| listed.sees(function) && may_use(request, function))
    {
        return list_resources(request, cursor.as_deref(), functions, listed, out);
    }
    let pager = request.engine().pager(request.dialect());
    let encoded = if listed.is_limited() { None } else { request.registry.lists(&pager).page(kind, cursor.as_deref()) };
    if let Some(page) = encoded {
        response::write_result(out, request.id, page);
    } else {
        let page = registry.page(&pager, kind, cursor.as_deref(), |info, scopes| listed.includes(info, scopes))?;
        response::write_result(out, request.id, &page);
    }
    Ok(())
}

/// Lists the registered resources together with those that functions return.
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
    let ResourceLists { name, common, functions, uses_context } = lists;
    let uses_context = uses_context || functions.iter().any(|(_, is_blocking)| *is_blocking);
    let context = || context_parts(request, "resources/list");
    let call = prepare(request, (name, common), None, uses_context, context)?;
    let permit = admit(request)?;
    let env = server_fn_env(Arc::clone(&request.engine().states), Arc::clone(request.encoding()), call.context.clone());
    let running = Box::pin(async move {
        let mut listed = Vec::new();
        for (function, blocking) in functions {
            match run_server_fn(function, blocking, env.clone()).await {
                Ok(ServerFnOutput::Resources(resources)) => listed.extend(resources),
                Ok(ServerFnOutput::Completions(_)) => {}
                Err(error) => return Finished::failed(error),
            }
        }
        let encoding = engine.encoding(dialect);
        let sees = |info: &EntryInfo<'_>, scopes: Option<&Scopes>| listed_to.includes(info, scopes);
        let page_size = engine.profile.limits.page_size;
        write_resources(registry.listed_resources(), &listed, encoding, start, page_size, sees).into()
    });
    call.run_future(request, permit, running, out);
    Ok(())
}
