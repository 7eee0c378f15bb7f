//! The lists.

use std::sync::Arc;

use super::{
    caller::Sight,
    connection::Connection,
    dispatch::{Request, Ways, produce},
    results,
};
use crate::{
    error::Fault,
    handler::{Finished, Produced, entry::EntryInfo},
    registry::{ListKind, ResourceLists, offset, write_resources},
};

impl Connection {
    /// Lists a page of what there is of a kind, as bytes that were made once where every caller sees the same.
    ///
    /// See [Pagination](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination).
    pub(super) fn list(&self, request: &Request<'_>, kind: ListKind, out: &mut Vec<u8>) -> Result<bool, Fault> {
        let cursor = request.params.cursor()?;
        let (registry, sight) = (request.registry, self.sight(request));
        if kind == ListKind::Resources
            && registry.lists_resources()
            && let Some(functions) = registry.resource_lists(|item| sight.sees(item))
        {
            return self.list_resources(request, cursor.as_deref(), functions, sight, out);
        }
        let pager = self.engine.pager(request.speaker.dialect);
        let finished = match sight.is_limited() {
            true => None,
            false => registry.lists(&pager).page(kind, cursor.as_deref()),
        };
        match finished {
            Some(page) => results::respond(out, request.id, page),
            None => {
                let page = registry.page(&pager, kind, cursor.as_deref(), |info| sight.sees_entry(info))?;
                results::respond(out, request.id, &page);
            }
        }
        Ok(true)
    }

    /// Lists resources where functions have a say in it.
    fn list_resources(
        &self,
        request: &Request<'_>,
        cursor: Option<&str>,
        lists: ResourceLists,
        sight: Sight,
        out: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        let (engine, registry) = (Arc::clone(&self.engine), Arc::clone(request.registry));
        let dialect = request.speaker.dialect;
        let start = cursor.map_or(Ok(0), offset)?;
        let ResourceLists { common, functions, uses_context } = lists;
        let mut call = self.prepare(request, common, "resources/list", false, uses_context, Ways::default())?;
        call.permit = self.admit(false)?;
        let env = self.env(request, call.context.clone());
        let running = Box::pin(async move {
            let mut listed = Vec::new();
            for (function, blocking) in functions {
                match produce(function, blocking, env.clone()).await {
                    Ok(Produced::Resources(resources)) => listed.extend(resources),
                    Ok(Produced::Completions(_)) => {}
                    Err(refusal) => return Finished { body: Vec::new(), outcome: Err(refusal) },
                }
            }
            let encoding = engine.encoding(dialect);
            let sees = |info: &EntryInfo<'_>| sight.sees_entry(info);
            match write_resources(registry.listed_resources(), &listed, encoding, start, engine.limits.page, sees) {
                Ok(body) => Finished { body, outcome: Ok(()) },
                Err(fault) => Finished { body: Vec::new(), outcome: Err(fault.into()) },
            }
        });
        Ok(call.drive(running, out))
    }
}
