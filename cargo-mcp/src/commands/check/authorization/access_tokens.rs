//! Tokens that a server must refuse.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use reqwest::StatusCode;
use serde_json::{Value, json};
use url::Url;

use super::{Protection, TokenArgs, metadata, probe::Prober, wrong_status};
use crate::{
    commands::check::codes::{self, Code, Findings},
    failure::Failure,
};

/// Sends tokens that the server must refuse, and compares the audience of the user's token if it is accepted.
///
/// # Errors
///
/// Fails if the user's own token is to be sent, and there is none.
pub(super) async fn check(
    findings: &mut Findings,
    prober: &Prober<'_>,
    url: &Url,
    protection: &Protection,
    tokens: &TokenArgs,
    own: Option<&str>,
) -> Result<(), Failure> {
    let claims = claims(protection);
    let unsigned = forged(&json!({"alg": "none", "typ": "at+jwt"}), &claims, &[]);
    let forged = forged(&json!({"alg": "ES256", "typ": "at+jwt"}), &claims, &[0; 64]);
    for (token, what, code) in [
        (Some("cargo-mcp-check"), "a token that no authorization server has issued", codes::UNVERIFIED_TOKEN),
        (Some(&unsigned), "a token without a signature", codes::UNVERIFIED_TOKEN),
        (Some(&forged), "a token with a forged signature", codes::UNVERIFIED_TOKEN),
        (tokens.foreign_token.as_deref(), "the token for another server", codes::UNCHECKED_AUDIENCE),
    ] {
        if let Some(token) = token
            && let Ok(response) = prober.post(Some(token)).await
        {
            must_refuse(findings, what, code, response.status());
        }
    }
    if let Some(own) = own
        && let Some(audience) = other_audience(own, url, protection.resource.as_deref())
        && prober.post(Some(own)).await.is_ok_and(|response| response.status().is_success())
    {
        let message = format!("the server accepts your token, whose audience is {audience}, expected `{url}`");
        findings.add_to_server(codes::OTHER_AUDIENCE, message);
    }
    if tokens.token_in_query {
        let Some(own) = own else {
            return Err(
                Failure::usage("`--token-in-query` requires a token").help("log in, or pass the token with `--bearer`")
            );
        };
        if prober.post_with_query(own).await.is_ok_and(|response| response.status().is_success()) {
            findings.add_to_server(codes::TOKEN_IN_QUERY, "the server accepts your token in the query");
        }
    }
    Ok(())
}

fn must_refuse(findings: &mut Findings, what: &str, code: &'static Code, status: StatusCode) {
    match status {
        // A server that limits the rate of invalid tokens shows nothing.
        StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS => {}
        status if status.is_success() => {
            findings.add_to_server(code, format!("the server accepts {what}"));
        }
        status => wrong_status(findings, &format!("a request with {what}"), status),
    }
}

/// Returns the claims of a token that would be valid if its signature were.
fn claims(protection: &Protection) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    json!({
        "iss": protection.authorization_servers.first(),
        "aud": protection.resource,
        "sub": "cargo-mcp-check",
        "client_id": "cargo-mcp-check",
        "iat": now,
        "exp": now + 300,
    })
}

/// Returns a JSON Web Token.
fn forged(header: &Value, claims: &Value, signature: &[u8]) -> String {
    let [header, claims] = [header, claims].map(|part| BASE64.encode(part.to_string()));
    format!("{header}.{claims}.{}", BASE64.encode(signature))
}

/// Returns the audience of a JSON Web Token, unless it contains the server or cannot be read.
fn other_audience(token: &str, url: &Url, resource: Option<&str>) -> Option<Value> {
    let claims = BASE64.decode(token.split('.').nth(1)?).ok()?;
    let claims = serde_json::from_slice::<Value>(&claims).ok().filter(Value::is_object)?;
    let audience = &claims["aud"];
    let mut names = audience.as_array().map_or_else(|| std::slice::from_ref(audience), Vec::as_slice).iter();
    let is_server = |name: &str| Some(name) == resource || metadata::contains(name, url);
    let is_named = names.any(|name| name.as_str().is_some_and(is_server));
    (!is_named).then(|| audience.clone())
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
    use serde_json::json;
    use url::Url;

    #[test]
    fn audiences_are_compared_with_the_server() {
        let url = Url::parse("https://a.example/mcp").unwrap();
        for (claims, expected) in [
            (json!({"aud": "https://a.example/mcp"}), None),
            (json!({"aud": ["https://b.example", "https://a.example/mcp"]}), None),
            (json!({"aud": "https://a.example"}), None),
            (json!({"aud": "notes"}), None),
            (json!({"aud": "https://b.example"}), Some(json!("https://b.example"))),
            (json!({"aud": ["b"]}), Some(json!(["b"]))),
            (json!({}), Some(json!(null))),
            (json!([]), None),
        ] {
            let token = format!("e30.{}.", BASE64.encode(claims.to_string()));
            assert_eq!(super::other_audience(&token, &url, Some("notes")), expected, "{claims}");
        }
        for opaque in ["random", "a.b.c", ""] {
            assert_eq!(super::other_audience(opaque, &url, None), None, "{opaque}");
        }
    }
}
