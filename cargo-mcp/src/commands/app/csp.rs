//! The content security policy of a page.

use mcp_page::is_origin;
use serde_json::Value;

/// Builds the policy that a page declares in `_meta.ui.csp`. Also returns the domains that are not origins, which are not
/// part of the policy.
///
/// Frames inherit the policy of the sandbox that creates them, so that it holds for the page, too. `form-action` is not
/// declared by pages; without it, a form could send data to any origin. No directive blocks DNS prefetching, and browsers that
/// do not know `webrtc` permit connections between peers.
pub(super) fn policy(declared: &Value) -> (String, Vec<String>) {
    let mut rejected = Vec::new();
    let mut sources = |member: &str, first: &str| {
        let declared = declared[member].as_array().into_iter().flatten();
        let (valid, invalid): (Vec<&str>, _) =
            declared.map(|domain| domain.as_str().unwrap_or_default()).partition(|domain| is_origin(domain));
        rejected.extend(invalid.into_iter().map(str::to_owned));
        match (first, &*valid.join(" ")) {
            ("", "") => "'none'".to_owned(),
            (first, domains) => format!("{first} {domains}").trim().to_owned(),
        }
    };
    let (connect, frames) = (sources("connectDomains", ""), sources("frameDomains", ""));
    let (base, resources) = (sources("baseUriDomains", ""), sources("resourceDomains", "'self'"));
    let base = if base == "'none'" { "'self'" } else { &base };
    let policy = format!(
        "default-src 'none'; script-src 'unsafe-inline' {resources}; style-src 'unsafe-inline' {resources}; \
         img-src data: {resources}; media-src data: {resources}; font-src {resources}; connect-src {connect}; \
         frame-src {frames}; object-src 'none'; base-uri {base}; form-action 'none'; webrtc 'block'"
    );
    (policy, rejected)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::policy;

    #[test]
    fn undeclared_domains_are_blocked() {
        let (policy, rejected) = policy(&Value::Null);
        assert_eq!(
            policy,
            "default-src 'none'; script-src 'unsafe-inline' 'self'; style-src 'unsafe-inline' 'self'; \
             img-src data: 'self'; media-src data: 'self'; font-src 'self'; connect-src 'none'; frame-src 'none'; \
             object-src 'none'; base-uri 'self'; form-action 'none'; webrtc 'block'"
        );
        assert!(rejected.is_empty());
    }

    #[test]
    fn declared_domains_are_allowed() {
        let (policy, rejected) = policy(&json!({
            "connectDomains": ["https://api.example.com", "wss://live.example.com:8443"],
            "resourceDomains": ["https://*.example.org"],
            "frameDomains": ["https://video.example"],
            "baseUriDomains": ["https://base.example"],
        }));
        for directive in [
            "connect-src https://api.example.com wss://live.example.com:8443;",
            "script-src 'unsafe-inline' 'self' https://*.example.org;",
            "style-src 'unsafe-inline' 'self' https://*.example.org;",
            "img-src data: 'self' https://*.example.org;",
            "media-src data: 'self' https://*.example.org;",
            "font-src 'self' https://*.example.org;",
            "frame-src https://video.example;",
            "base-uri https://base.example;",
        ] {
            assert!(policy.contains(directive), "{directive}: {policy}");
        }
        assert!(rejected.is_empty());
    }

    #[test]
    fn a_domain_adds_nothing_but_itself() {
        for domain in ["*", "https://", "https://a.example; script-src *", "https://a.example\r\nX-Header: 1"] {
            let (policy, rejected) = policy(&json!({"connectDomains": [domain]}));
            assert!(policy.contains("connect-src 'none';"), "{policy}");
            assert_eq!(rejected, [domain]);
        }
    }
}
