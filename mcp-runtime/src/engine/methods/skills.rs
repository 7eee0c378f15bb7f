//! The skills extension: `skills/list`, `skills/get` and `resources/directory/read`.
//!
//! The files of skills are ordinary resources as well, so every revision can list and read them.

use crate::{
    engine::{
        call::response,
        request::{context::RequestContext, params},
    },
    error::Fault,
    excerpt::excerpt,
    handler::entry::EntryInfo,
    registry::{Node, Pager},
};

/// Lists the skills.
pub(crate) fn list(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (cursor, visible) = (request.params.cursor()?, request.visible_to());
    let skills: Vec<_> = request.registry.skills().all().iter().collect();
    let sees = |info: &EntryInfo<'_>| visible.sees_entry(info);
    let page = request
        .engine()
        .pager(request.dialect())
        .page_of("skills", &skills, cursor.as_deref(), |info, _| sees(info))?;
    response::write_result(out, request.id, &page);
    Ok(())
}

/// Returns one skill.
pub(crate) fn get(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let uri = params::string(request.params.uri, "uri")?;
    let visible = request.visible_to();
    let Some(skill) = request.registry.skills().skill(&uri, |info| visible.sees_entry(info)) else {
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
    let skills = request.registry.skills();
    let sees = |info: &EntryInfo<'_>| visible.sees_entry(info);
    let Some(node) = skills.node(&uri, sees) else {
        return Err(Fault::ResourceNotFound(uri.into_owned()));
    };
    let Some(children) = skills.children(node) else {
        return Err(Fault::InvalidParams(format!("not a directory: {}", excerpt(&uri))));
    };
    let pager = Pager { ttl: None, ..request.engine().pager(request.dialect()) };
    let page = pager.page_of("resources", &children, cursor.as_deref(), |info, _| sees(info))?;
    response::write_result(out, request.id, &page);
    Ok(())
}

/// Answers `resources/read` with a file of a skill. Such files do not change while the server runs.
pub(crate) fn read_file(request: &RequestContext<'_>, file: &Node, out: &mut Vec<u8>) -> Result<(), Fault> {
    response::begin_result(out, request.id);
    file.write(out, request.encoding(), request.engine().profile.limits.list_ttl);
    out.push(b'}');
    Ok(())
}
