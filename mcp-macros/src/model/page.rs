//! `#[ui]`

use std::path::{Path, PathBuf};

use mcp_page::{DEV_VARIABLE, MEDIA_TYPE, Policy, Rejected, SCHEME, Use};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Ident, LitStr, ReturnType, parse_quote};

use super::{EnclosingType, Kind, Resource, literal::json_string, resource::subspan};
use crate::{
    errors::{Errors, one_of},
    manifest,
    syntax::{Function, PageSyntax},
};

/// The permissions that a page may request, and their names in the protocol.
const PERMISSIONS: [(&str, &str); 4] = [
    ("camera", "camera"),
    ("microphone", "microphone"),
    ("geolocation", "geolocation"),
    ("clipboard_write", "clipboardWrite"),
];

/// A checked page.
pub(crate) struct Page {
    pub(crate) resource: Resource,
    /// The URI as JSON.
    pub(crate) uri_json: String,
}

impl Page {
    /// Checks a page and returns it with its function.
    pub(crate) fn check(given: PageSyntax, errors: &mut Errors) -> (Self, Function) {
        let PageSyntax { mut resource, file, origins, .. } = given;
        if let Some(uri) = &resource.uri {
            check_uri(uri, errors);
        }
        let policy = checked_policy(&origins, errors);
        let private = manifest::private_path(resource.common.crate_path.as_ref());
        define(&mut resource.function, file.as_ref(), &policy, &private, errors);
        for key in resource.common.meta.iter().map(|member| &member.key).filter(|key| key.value() == "ui") {
            errors.on(key, "the options of the page set the key `ui` of `meta`");
        }
        let mut members: Vec<String> = policy_json(&policy).map(|csp| format!(r#""csp":{csp}"#)).into_iter().collect();
        let permissions = checked_permissions(&given.permissions, errors);
        if !permissions.is_empty() {
            members.push(format!(r#""permissions":{{{}}}"#, permissions.join(",")));
        }
        if let Some(domain) = given.domain.filter(|domain| is_domain(domain, errors)) {
            members.push(format!(r#""domain":{}"#, json_string(&domain.value())));
        }
        if let Some((prefers_border, _)) = given.prefers_border {
            members.push(format!(r#""prefersBorder":{prefers_border}"#));
        }
        let (mut resource, function) = Resource::check_as(Kind::Page, resource, &EnclosingType::None, errors);
        resource.mime_type = Some(MEDIA_TYPE.to_owned());
        if !members.is_empty() {
            resource.common.meta.push(("ui".to_owned(), format!("{{{}}}", members.join(","))));
        }
        let uri_json = json_string(&resource.uri);
        (Self { resource, uri_json }, function)
    }
}

/// Checks the declared origins, in the order of [`Use::ALL`].
fn checked_policy(given: &[Vec<LitStr>; 4], errors: &mut Errors) -> Policy {
    let mut policy = Policy::default();
    for ((kind, option, _), literals) in Use::ALL.into_iter().zip(given) {
        for literal in literals {
            let value = literal.value();
            let example = if kind == Use::Connect { "https://api.example.com" } else { "https://cdn.example.com" };
            match policy.add(kind, &value) {
                Ok(()) => {}
                Err(Rejected::Invalid) => {
                    let message = format!("invalid origin `{value}` of `{option}`, expected a scheme and a host");
                    errors.on(literal, format_args!("{message} such as `{example}`"));
                }
                Err(Rejected::Duplicate) => errors.on(literal, format_args!("duplicate origin `{value}`")),
            }
        }
    }
    policy
}

/// Returns the value of `csp`, unless it would be empty.
fn policy_json(policy: &Policy) -> Option<String> {
    let lists = Use::ALL.into_iter().zip(policy.origins()).filter(|(_, origins)| !origins.is_empty());
    let members = lists.map(|((.., name), origins)| {
        let origins: Vec<_> = origins.into_iter().map(json_string).collect();
        format!(r#""{name}":[{}]"#, origins.join(","))
    });
    let members: Vec<_> = members.collect();
    (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")))
}

fn check_uri(uri: &LitStr, errors: &mut Errors) {
    let value = uri.value();
    let help = r#"write a URI such as `ui://notes/board`"#;
    match value.strip_prefix(SCHEME) {
        Some("") => errors.help(uri, "the URI of a page has no path", help),
        Some(_) => {
            if let Some(at) = value.find('{') {
                let message = "the URI of a page cannot have variables: tools name the page by its URI";
                errors.help_at(subspan(uri, at..at + 1), message, help);
            }
        }
        None => {
            let message = format!("invalid scheme of the URI `{value}`, expected `{SCHEME}`");
            errors.help(uri, message, help);
        }
    }
}

/// Gives a page with a file its body, which returns the text of the file.
fn define(function: &mut Function, file: Option<&LitStr>, policy: &Policy, private: &TokenStream, errors: &mut Errors) {
    let signature = &function.signature;
    let Some(file) = file else {
        if function.is_bodiless() {
            let help = r#"name a file, as in `#[ui("ui://notes/board", file = "board.html")]`, or write a body"#;
            errors.help(&signature.ident, "this page has neither a file nor a body", help);
            function.define(parse_quote!(-> &'static str), quote!({ "" }));
        }
        return;
    };
    let has_output = matches!(signature.output, ReturnType::Type(..));
    if !function.is_bodiless() || has_output || !signature.inputs.is_empty() || signature.asyncness.is_some() {
        let help = format!("write only `fn {}();`", signature.ident);
        errors.help(file, "the text of this page is the file, so the function cannot have a body or a signature", help);
        function.define(parse_quote!(-> &'static str), quote!({ "" }));
        return;
    }
    let cow = quote!(::std::borrow::Cow);
    let mut text = quote!(#cow::Borrowed(""));
    match find(file).map(|path| (mcp_page::bundle(&path, policy), path)) {
        Err(why) => errors.on(file, why),
        Ok((Err(problems), _)) => problems.iter().for_each(|problem| errors.on(file, problem)),
        Ok((Ok(bundle), path)) => {
            let html = &bundle.html;
            let files = bundle.files.iter().filter_map(|file| file.to_str());
            // Cargo runs the macro again if one of the files changes.
            let files = quote!(#(const _: &[u8] = ::core::include_bytes!(#files);)*);
            text = if std::env::var_os(DEV_VARIABLE).is_some() {
                let (path, origins) = (path.to_string_lossy(), policy.origins());
                let dev = quote!(#private::dev_page(#path, &[#(&[#(#origins),*]),*]));
                // A release contains the text, even if it is built where the variable is set.
                quote!({
                    #[cfg(debug_assertions)]
                    let text = #dev.map_or(#cow::Borrowed(#html), #cow::Owned);
                    #[cfg(not(debug_assertions))]
                    let text = { #files #cow::Borrowed(#html) };
                    text
                })
            } else {
                quote!({ #files #cow::Borrowed(#html) })
            };
        }
    }
    // Cargo runs the macro again if the variable changes.
    let body = quote!({ const _: ::core::option::Option<&str> = ::core::option_env!(#DEV_VARIABLE); #text });
    function.define(parse_quote!(-> #cow<'static, str>), body);
}

/// Returns the absolute path of a file, which is named relative to the source file, as in `include_str!`.
fn find(file: &LitStr) -> Result<PathBuf, String> {
    let source = proc_macro::is_available().then(|| file.span().unwrap().local_file()).flatten();
    let root = || std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let directory = source.as_deref().and_then(Path::parent).map_or_else(root, Path::to_owned);
    let path = directory.join(file.value());
    path.canonicalize().map_err(|error| format!("cannot read `{}`: {error}", path.display()))
}

fn checked_permissions(given: &[Ident], errors: &mut Errors) -> Vec<String> {
    let mut permissions = Vec::new();
    for permission in given {
        let names = || PERMISSIONS.iter().map(|(name, _)| *name);
        let Some((_, name)) = PERMISSIONS.iter().find(|(name, _)| permission == name) else {
            let message = format!("unknown permission `{permission}`, expected {}", one_of(names()));
            errors.unknown(permission, message, &permission.to_string(), names());
            continue;
        };
        let member = format!(r#""{name}":{{}}"#);
        if permissions.contains(&member) {
            errors.on(permission, format_args!("duplicate permission `{permission}`"));
        } else {
            permissions.push(member);
        }
    }
    permissions
}

fn is_domain(domain: &LitStr, errors: &mut Errors) -> bool {
    let value = domain.value();
    let is_valid = !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-');
    if !is_valid {
        let message = format!("invalid domain `{value}`, expected a host name such as `www-example-com.example.net`");
        errors.on(domain, message);
    }
    is_valid
}
