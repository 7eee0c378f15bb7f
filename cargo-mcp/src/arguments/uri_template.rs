//! URI templates.

/// Returns the variables of a URI template (RFC 6570): `{id}`, `{+path}`, `{?a,b*}`, `{name:3}`.
pub(crate) fn variables(template: &str) -> Vec<String> {
    let expressions = template.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let names = expressions
        .flat_map(|expression| expression.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']).split(','));
    names.map(|name| name.trim_end_matches('*').split(':').next().unwrap_or_default().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::variables;

    #[test]
    fn variables_are_found() {
        for (template, names) in [
            ("notes://note/{id}", &["id"][..]),
            ("file:///{+path}{?first,last*}", &["path", "first", "last"]),
            ("x://{name:3}/y", &["name"]),
            ("x://none", &[]),
        ] {
            assert_eq!(variables(template), names, "{template}");
        }
    }
}
