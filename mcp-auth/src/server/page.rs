use std::fmt::Write as _;

use bytes::Bytes;
use http::{Response, StatusCode, Uri, header};

use super::{client::Client, random, redirect_uri, reply};
use crate::Error;

/// The maximum number of characters of a client's name that are displayed.
const MAX_NAME: usize = 60;

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:1rem/1.5 system-ui,sans-serif;margin:0;padding:1rem;color:#1b1b1f;background:#f4f4f6}\
main{max-width:32rem;margin:2rem auto;padding:1.5rem;background:#fff;border:1px solid #8a8a94;border-radius:.5rem}\
h1{font-size:1.375rem;line-height:1.3;margin:0 0 1rem;overflow-wrap:anywhere}\
h2{font-size:1.125rem;overflow-wrap:anywhere}section{margin-top:1.5rem;padding-top:.5rem;border-top:1px solid #8a8a94}\
label{display:block;margin:.5rem 0;overflow-wrap:anywhere}dt{font-weight:600}dd{margin:0 0 .75rem;overflow-wrap:anywhere}\
.warning{border-left:.25rem solid #b3261e;padding-left:.75rem}\
.actions{display:flex;flex-wrap:wrap;gap:.75rem;margin-top:1.5rem}\
button{font:inherit;padding:.625rem 1.25rem;border:1px solid #5c5c66;border-radius:.375rem;background:#fff;color:#1b1b1f;cursor:pointer}\
button[value=approve]{background:#1a56b0;border-color:#1a56b0;color:#fff}\
button:focus-visible{outline:.1875rem solid #1a56b0;outline-offset:.125rem}\
@media(prefers-color-scheme:dark){body{color:#ececf1;background:#17171a}main{background:#222226}\
button{background:#222226;color:#ececf1}button:focus-visible{outline-color:#9ec1ff}}";

/// A page that asks a user whether a client may act for the user.
///
/// Everything that it contains of the client was chosen by the client: text is escaped by [`html_escape`], and the
/// [name](Self::client_name) is short and has no characters that change the direction of text.
///
/// ```
/// use mcp_auth::{ConsentPage, html_escape};
///
/// fn consent(page: &ConsentPage) -> String {
///     format!(
///         "<!doctype html><html lang=en><title>Notes</title><main><h1>Allow {} to use your notes?</h1>
///          <p>The answer is sent to {}.</p>{}</main></html>",
///         html_escape(page.client_name()),
///         html_escape(page.redirect_host()),
///         page.form("Allow", "Cancel"),
///     )
/// }
/// ```
#[derive(Debug)]
pub struct ConsentPage {
    pub(super) service: String,
    pub(super) client_name: String,
    pub(super) client_url: Option<String>,
    pub(super) is_configured: bool,
    pub(super) redirect_host: String,
    pub(super) redirect_uri: String,
    pub(super) is_local: bool,
    pub(super) upstream_scopes: Vec<String>,
    /// The scopes with their descriptions.
    pub(super) scopes: Vec<(String, String)>,
    pub(super) action: String,
    pub(super) request: String,
    pub(super) nonce: String,
    pub(super) style: Option<String>,
}

impl ConsentPage {
    /// Returns the name of the server for users.
    pub fn service_name(&self) -> &str {
        &self.service
    }

    /// Returns the name that the client states. It proves nothing: every client can state every name.
    pub fn client_name(&self) -> &str {
        &self.client_name
    }

    /// Returns the URL of the metadata document that identifies the client, if it has one. The whole URL vouches for the
    /// client: a host may have the documents of many publishers.
    pub fn client_url(&self) -> Option<&str> {
        self.client_url.as_deref()
    }

    /// Returns whether the operator of the server has configured the client.
    pub fn is_configured(&self) -> bool {
        self.is_configured
    }

    /// Returns the host to which the answer is sent, or the scheme of an application on the machine of the user.
    pub fn redirect_host(&self) -> &str {
        &self.redirect_host
    }

    /// Returns the URI to which the answer is sent.
    pub fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Returns whether the answer is sent to a program on the machine of the user.
    pub fn is_local(&self) -> bool {
        self.is_local
    }

    /// Returns the names and descriptions of the scopes that the client requests.
    pub fn scopes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.scopes.iter().map(|(name, description)| (name.as_str(), description.as_str()))
    }

    /// Returns the scopes that the server will request at the provider.
    pub fn upstream_scopes(&self) -> &[String] {
        &self.upstream_scopes
    }

    /// Returns the nonce that style elements of the page need: `<style nonce="…">`. The page can load nothing and run no
    /// scripts.
    pub fn style_nonce(&self) -> &str {
        &self.nonce
    }

    /// Returns the form with which the user chooses scopes and answers, with the labels of its two buttons. Every page must
    /// contain it.
    pub fn form(&self, approve: &str, deny: &str) -> String {
        let mut scopes = String::new();
        for (index, (name, description)) in self.scopes().enumerate() {
            let (field, name) = (scope_field(index), html_escape(name));
            let text = match description {
                "" => format!("<code>{name}</code>"),
                text => format!("{} (<code>{name}</code>)", html_escape(text)),
            };
            let _ = write!(
                scopes,
                "<label><input type=\"checkbox\" name=\"{field}\" value=\"yes\" checked> {text}</label>"
            );
        }
        format!(
            "<form method=\"post\" action=\"{}\"><input type=\"hidden\" name=\"request\" value=\"{}\">{scopes}\
             <div class=\"actions\"><button name=\"decision\" value=\"approve\">{}</button>\
             <button name=\"decision\" value=\"deny\">{}</button></div></form>",
            html_escape(&self.action),
            html_escape(&self.request),
            html_escape(approve),
            html_escape(deny),
        )
    }

    /// Returns the page that is displayed by default.
    pub(super) fn default_html(&self) -> String {
        let (client, service) = (html_escape(&self.client_name), html_escape(&self.service));
        let mut body = format!("<h1>Allow <q>{client}</q> to use {service} for you?</h1><dl>");
        match &self.client_url {
            Some(url) => {
                let _ = write!(body, "<dt>Published at</dt><dd><code>{}</code></dd>", html_escape(url));
            }
            None if self.is_configured => {
                let _ = write!(body, "<dt>Application</dt><dd>The operator of {service} has set it up.</dd>");
            }
            None => body.push_str(
                "<dt>Application</dt><dd>It has chosen its name itself, and nobody has verified who it is.</dd>",
            ),
        }
        let (host, uri) = (html_escape(&self.redirect_host), html_escape(&self.redirect_uri));
        let _ = write!(body, "<dt>The answer is sent to</dt><dd>{host}<br><code>{uri}</code></dd>");
        let scopes = if self.scopes.is_empty() { "Use the server in your name" } else { "Do what you select below" };
        let _ = write!(body, "<dt>It will be able to</dt><dd>{scopes}</dd>");
        if !self.upstream_scopes.is_empty() {
            let scopes = html_escape(&self.upstream_scopes.join(" "));
            let _ = write!(body, "<dt>The login will ask for</dt><dd><code>{scopes}</code></dd>");
        }
        body.push_str("</dl>");
        if self.is_local {
            body.push_str(
                "<p class=\"warning\">The answer is sent to a program on this computer. Allow it only if you have just \
                 started to connect such a program.</p>",
            );
        }
        let next = format!("<p>If you allow it, you log in next. Nothing is shared with {client} before.</p>");
        body.push_str(&next);
        body.push_str(&self.form("Allow", "Cancel"));
        document(&format!("Allow access to {service}"), &self.nonce, self.style.as_deref(), &body)
    }
}

/// Returns the name of the field that is sent if the user allows a scope.
pub(super) fn scope_field(index: usize) -> String {
    format!("scope-{index}")
}

/// Describes a client to a user.
pub(super) fn describe(client: &Client, redirect: &str) -> (String, String, bool) {
    let name = display_name(client.name.as_deref());
    if let Some(scheme) = redirect_uri::private_scheme(redirect) {
        return (name, scheme.to_owned(), true);
    }
    let uri = redirect_uri::parse(redirect).unwrap_or_default();
    let authority = uri.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
    (name, authority, redirect_uri::is_loopback(&uri))
}

/// Returns a name without characters that are invisible or change the direction of text.
pub(super) fn display_name(name: Option<&str>) -> String {
    let is_harmful = |character: char| {
        character.is_control()
            || matches!(character, '\u{ad}' | '\u{61c}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(character, '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}')
            || matches!(character, '\u{e0000}'..='\u{e0fff}' | '\u{1d173}'..='\u{1d17a}' | '\u{1bca0}'..='\u{1bca3}')
            || matches!(
                character,
                '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}'
            )
    };
    let visible = name.unwrap_or_default().replace(is_harmful, " ");
    let words: Vec<&str> = visible.split_whitespace().collect();
    let mut shown: String = words.join(" ").chars().take(MAX_NAME).collect();
    if words.join(" ").chars().nth(MAX_NAME).is_some() {
        shown.push('…');
    }
    if shown.is_empty() { "An application without a name".to_owned() } else { shown }
}

/// A grant of a user, for the account page.
#[derive(Debug)]
pub(super) struct AccountEntry {
    /// The name that the client states.
    pub(super) name: String,
    /// The identifier of the client.
    pub(super) client: String,
    /// The scopes with their descriptions.
    pub(super) scopes: Vec<(String, String)>,
    /// The days of the approval and of the last refresh.
    pub(super) created: String,
    pub(super) used: String,
    /// The identifier of the grant.
    pub(super) id: String,
}

/// A page whose forms return a sealed value.
#[derive(Debug)]
pub(super) struct FormPage<'a> {
    pub(super) service: &'a str,
    /// The path to which the forms are sent.
    pub(super) action: &'a str,
    pub(super) style: Option<&'a str>,
    pub(super) sealed: &'a str,
    pub(super) nonce: &'a str,
}

/// Returns the page of a user, whose sealed value is the user, with the grants, and whether clients have access because the
/// provider has allowed it.
pub(super) fn account(
    page: &FormPage<'_>,
    entries: &[AccountEntry],
    has_assertions: bool,
    has_approvals: bool,
) -> String {
    let (service, action) = (html_escape(page.service), html_escape(page.action));
    let form = |id: &str, label: &str| {
        format!(
            "<form method=\"post\" action=\"{action}\"><input type=\"hidden\" name=\"account\" value=\"{}\">\
             <div class=\"actions\"><button name=\"end\" value=\"{}\">{label}</button></div></form>",
            html_escape(page.sealed),
            html_escape(id),
        )
    };
    let mut body = format!("<h1>Applications that may use {service} for you</h1>");
    for entry in entries {
        let name = html_escape(&entry.name);
        let _ = write!(body, "<section><h2>{name}</h2><dl><dt>Identifier</dt><dd><code>");
        let _ = write!(body, "{}</code></dd><dt>It is able to</dt><dd>", html_escape(&entry.client));
        for (scope, description) in &entry.scopes {
            let _ = write!(body, "{} (<code>{}</code>)<br>", html_escape(description), html_escape(scope));
        }
        let _ = write!(body, "</dd><dt>Allowed on</dt><dd>{}</dd><dt>Last used on</dt>", entry.created);
        let _ =
            write!(body, "<dd>{}</dd></dl>{}</section>", entry.used, form(&entry.id, &format!("End access of {name}")));
    }
    if has_assertions {
        let _ = write!(body, "<p>Your organization allows applications to use {service} for you.</p>");
    }
    if entries.is_empty() && !has_assertions {
        body.push_str("<p>There are none.</p>");
    }
    if has_approvals {
        body.push_str(
            "<p>Applications that you have allowed within the last 30 days can get access again without asking you, in the \
             browser in which you have allowed them. To be asked again, end all access.</p>",
        );
    }
    if !entries.is_empty() || has_assertions || has_approvals {
        body.push_str(&form("all", "End all access"));
    }
    document(&format!("Access to {service}"), page.nonce, page.style, &body)
}

/// Returns the page on which a user confirms a login that has ended at the provider, whose response is the sealed value.
pub(super) fn confirmation(page: &FormPage<'_>, client: &Client, redirect: &str) -> String {
    let (name, host, _) = describe(client, redirect);
    let (name, service) = (html_escape(&name), html_escape(page.service));
    let body = format!(
        "<h1>Continue to <q>{name}</q>?</h1><p>You have logged in. If you continue, <q>{name}</q> can use {service} for you.</p>\
         <dl><dt>The answer is sent to</dt><dd>{}<br><code>{}</code></dd></dl>\
         <p class=\"warning\">Continue only if you have just allowed this yourself.</p>\
         <form method=\"post\" action=\"{}\"><input type=\"hidden\" name=\"response\" value=\"{}\">\
         <div class=\"actions\"><button name=\"decision\" value=\"approve\">Continue</button>\
         <button name=\"decision\" value=\"deny\">Cancel</button></div></form>",
        html_escape(&host),
        html_escape(redirect),
        html_escape(page.action),
        html_escape(page.sealed),
    );
    document(&format!("Continue to {service}"), page.nonce, page.style, &body)
}

/// Returns a page that says why a request cannot be continued.
pub(super) fn error(status: StatusCode, why: &str) -> Response<Bytes> {
    let nonce = random::token().unwrap_or_default();
    let body =
        format!("<h1>The login cannot continue</h1><p>{}</p><p>Start again in your application.</p>", html_escape(why));
    reply::html(status, &nonce, document("The login cannot continue", &nonce, None, &body))
}

/// Returns a page with a link to the account page.
pub(super) fn enter(service: &str, account: &str) -> Response<Bytes> {
    let nonce = random::token().unwrap_or_default();
    let title = format!("Access to {}", html_escape(service));
    let body = format!(
        "<h1>{title}</h1><p>Another website has opened this page.</p><p><a href=\"{}\">Log in</a></p>",
        html_escape(account)
    );
    reply::html(StatusCode::OK, &nonce, document(&title, &nonce, None, &body))
}

/// Returns a page with a link to the target of a redirect.
pub(super) fn instead_of(redirect: &Response<Bytes>, why: &str) -> Response<Bytes> {
    let target = redirect.headers().get(header::LOCATION).and_then(|target| target.to_str().ok()).unwrap_or_default();
    let host = target.parse::<Uri>().ok().and_then(|uri| uri.authority().map(|host| host.as_str().to_owned()));
    let nonce = random::token().unwrap_or_default();
    let body = format!(
        "<h1>The login cannot continue</h1><p>{}</p><p><a rel=\"noreferrer\" href=\"{}\">Return to {}</a></p>",
        html_escape(why),
        html_escape(target),
        html_escape(&host.unwrap_or_default()),
    );
    reply::html(StatusCode::BAD_REQUEST, &nonce, document("The login cannot continue", &nonce, None, &body))
}

fn document(title: &str, nonce: &str, style: Option<&str>, body: &str) -> String {
    let style = style.unwrap_or_default().replace("</", "<\\/");
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <style nonce=\"{nonce}\">{STYLE}{style}</style></head><body><main>{body}</main></body></html>"
    )
}

/// Replaces the characters that have a meaning in HTML, for text and for attributes in quotes.
///
/// ```
/// assert_eq!(mcp_auth::html_escape("<a href='x'>"), "&lt;a href=&#39;x&#39;&gt;");
/// ```
pub fn html_escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Returns the response with a page.
pub(super) fn respond(page: &ConsentPage, custom: Option<&dyn Fn(&ConsentPage) -> String>) -> Response<Bytes> {
    let html = custom.map_or_else(|| page.default_html(), |custom| custom(page));
    reply::html(StatusCode::OK, &page.nonce, html)
}

/// Returns the nonce of a page.
pub(super) fn nonce() -> Result<String, Error> {
    random::token()
}

#[cfg(test)]
mod tests {
    use super::display_name;

    #[test]
    fn names_are_short_and_have_no_invisible_characters() {
        let (long, umlauts) = ("x".repeat(61), "ü".repeat(60));
        for (name, expected) in [
            (Some("Claude Code"), "Claude Code".to_owned()),
            (Some("  a \n\t b  "), "a b".to_owned()),
            (Some("evil\u{202e}txt.exe"), "evil txt.exe".to_owned()),
            (Some("a\u{200b}b\u{feff}"), "a b".to_owned()),
            (Some("a\u{ad}b\u{61c}c\u{180e}d\u{2028}e\u{fe0f}f\u{fffb}g\u{e0041}h"), "a b c d e f g h".to_owned()),
            (Some("\u{200b}\u{2066}"), "An application without a name".to_owned()),
            (
                Some(
                    "\u{3164}\u{34f}\u{115f}\u{1160}\u{17b4}\u{17b5}\u{2800}\u{ffa0}\u{1d173}\u{180b}\u{180f}\u{1bca0}",
                ),
                "An application without a name".to_owned(),
            ),
            (Some(""), "An application without a name".to_owned()),
            (None, "An application without a name".to_owned()),
            (Some(long.as_str()), format!("{}…", "x".repeat(60))),
            (Some(umlauts.as_str()), umlauts.clone()),
        ] {
            assert_eq!(display_name(name), expected, "{name:?}");
        }
    }
}
