//! `resources/read`.

use std::borrow::Cow;

use super::skills;
use crate::{
    engine::{
        call::prepare::CallRequest,
        request::{access::authorize, context::RequestContext, params},
    },
    error::Fault,
    handler::{entry::Hints, from_strings},
    registry::Found,
};

/// Calls the function of a resource, or returns a file of a skill.
///
/// See [Resources](https://modelcontextprotocol.io/specification/2025-11-25/server/resources).
pub(crate) fn read(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let uri = params::string(request.params.uri, "uri")?;
    let visible = request.visible_to();
    let registry = request.registry;
    if let Some(file) = registry.skills().file(&uri, |info| visible.sees_entry(info)) {
        return skills::read_file(request, file, out);
    }
    let Some(Found { function, variables }) = registry.resource(&uri, |function| visible.sees(function)) else {
        return Err(Fault::ResourceNotFound(uri.into_owned()));
    };
    authorize(request, function)?;
    let strings = variables.into_iter().map(|(name, text)| (Cow::Borrowed(name), Cow::Owned(text)));
    let arguments = from_strings(&function.contract, strings);
    let (hints, arguments) = (Hints::default(), &arguments);
    CallRequest { request, function, method: "resources/read", name: &uri, uri: &uri, hints, arguments }.call(out)
}
