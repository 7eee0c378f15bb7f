//! Cookies, which only this server receives.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};

/// How cookies are named and protected. On the loopback interface without TLS, browsers accept neither the prefix
/// `__Host-` nor `Secure` everywhere.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cookies {
    pub(super) is_secure: bool,
}

impl Cookies {
    fn name(self, name: &str) -> String {
        let prefix = if self.is_secure { "__Host-" } else { "" };
        format!("{prefix}mcp-{name}")
    }

    /// Returns the value of a cookie, unless it occurs more than once.
    pub(super) fn get<'a>(self, headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
        let name = self.name(name);
        let mut values = pairs(headers).filter(|(found, _)| *found == name).map(|(_, value)| value);
        values.next().filter(|_| values.next().is_none())
    }

    /// Returns the cookies whose names have this beginning, in the order of the browser.
    pub(super) fn starting_with<'a>(self, headers: &'a HeaderMap, beginning: &str) -> Vec<(&'a str, &'a str)> {
        let (prefix, beginning) = (self.name(""), self.name(beginning));
        let found = pairs(headers).filter(|(name, _)| name.starts_with(&beginning));
        found.map(|(name, value)| (&name[prefix.len()..], value)).collect()
    }

    /// Sets a cookie for this many seconds; with 0, deletes it.
    pub(super) fn set(self, response: &mut Response<Bytes>, name: &str, value: &str, seconds: u64) {
        let name = self.name(name);
        let secure = if self.is_secure { "; Secure" } else { "" };
        let cookie = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
    }
}

fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='))
}
