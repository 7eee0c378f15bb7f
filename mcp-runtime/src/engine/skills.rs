//! The skills extension: `skills/list`, `skills/get` and `resources/directory/read`.
//!
//! The files of skills are resources like others, so that `resources/list` and `resources/read` have them in every revision.

use super::{connection::Connection, dispatch::Request, params, results};
use crate::{
    error::Fault,
    handler::entry::EntryInfo,
    registry::{Node, Pager},
};

impl Connection {
    pub(super) fn list_skills(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<bool, Fault> {
        let (cursor, sight) = (request.params.cursor()?, self.sight(request));
        let skills: Vec<_> = request.registry.skills().all().iter().collect();
        let sees = |info: &EntryInfo<'_>| sight.sees_entry(info);
        let page = self.engine.pager(request.speaker.dialect).page_of("skills", &skills, cursor.as_deref(), sees)?;
        results::respond(out, request.id, &page);
        Ok(true)
    }

    pub(super) fn get_skill(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<bool, Fault> {
        let uri = params::string(request.params.uri, "uri")?;
        let sight = self.sight(request);
        let Some(skill) = request.registry.skills().skill(&uri, |info| sight.sees_entry(info)) else {
            return Err(Fault::ResourceNotFound(uri.into_owned()));
        };
        results::begin(out, request.id);
        skill.write(out, self.engine.encoding(request.speaker.dialect), self.engine.limits.list_ttl);
        out.push(b'}');
        Ok(true)
    }

    pub(super) fn read_directory(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<bool, Fault> {
        let uri = params::string(request.params.uri, "uri")?;
        let (cursor, sight) = (request.params.cursor()?, self.sight(request));
        let skills = request.registry.skills();
        let sees = |info: &EntryInfo<'_>| sight.sees_entry(info);
        let Some(node) = skills.node(&uri, sees) else {
            return Err(Fault::ResourceNotFound(uri.into_owned()));
        };
        let Some(children) = skills.children(node) else {
            return Err(Fault::InvalidParams(format!("no directory, but a file: {uri}")));
        };
        let pager = Pager { ttl: None, ..self.engine.pager(request.speaker.dialect) };
        let page = pager.page_of("resources", &children, cursor.as_deref(), sees)?;
        results::respond(out, request.id, &page);
        Ok(true)
    }

    /// Answers `resources/read` with a file of a skill, which stays as it is as long as the server runs.
    pub(super) fn read_skill_file(&self, request: &Request<'_>, file: &Node, out: &mut Vec<u8>) -> Result<bool, Fault> {
        results::begin(out, request.id);
        file.write(out, self.engine.encoding(request.speaker.dialect), self.engine.limits.list_ttl);
        out.push(b'}');
        Ok(true)
    }
}
