use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::identity::Identity;
use crate::stdx::debug;

/// The OAuth scopes that an operation requires: all of several, one of several, or a combination.
///
/// ```
/// use mcp_runtime::auth::Scopes;
///
/// let write = Scopes::from("notes:write");
/// let audited = Scopes::all(["notes:write", "audit"]);
/// let either = Scopes::any(["notes:read", "notes:admin"]);
/// // `notes:read` or `notes:admin`, and `audit`.
/// let both = either.and("audit");
/// ```
///
/// A scope consists of visible ASCII characters except `"` and `\`, as [RFC 6749](https://www.rfc-editor.org/rfc/rfc6749#section-3.3)
/// defines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
#[must_use]
pub struct Scopes {
    /// Groups of alternatives: one scope of each group is required.
    groups: Vec<Vec<Box<str>>>,
}

impl Scopes {
    /// Requires all of these scopes.
    pub fn all(scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        scopes.into_iter().fold(Self::default(), |all, scope| all.and(scope.into()))
    }

    /// Requires one of these scopes. If none is granted, clients are asked to request the first, so the scope with the
    /// fewest rights should come first.
    pub fn any(scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { groups: vec![scopes.into_iter().map(|scope| scope.into().into_boxed_str()).collect()] }
    }

    /// Also requires other scopes.
    pub fn and(mut self, other: impl Into<Self>) -> Self {
        for group in other.into().groups {
            if !self.groups.contains(&group) {
                self.groups.push(group);
            }
        }
        self
    }

    /// Returns whether nothing is required.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Creates the requirement of an annotation.
    pub(crate) fn of_groups(groups: &[&[&str]]) -> Self {
        Self { groups: groups.iter().map(|group| group.iter().map(|scope| (*scope).into()).collect()).collect() }
    }

    /// Returns the groups of alternatives, one of each of which is required.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &[Box<str>]> {
        self.groups.iter().map(Vec::as_slice)
    }

    /// Returns every scope.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().flatten().map(|scope| &**scope)
    }

    /// Returns what is wrong with the scopes, if they cannot be required.
    pub(crate) fn problem(&self) -> Option<String> {
        if self.groups.is_empty() || self.groups.iter().any(Vec::is_empty) {
            return Some("no scope is named, so no caller could meet the requirement".to_owned());
        }
        self.names().find_map(scope_problem)
    }
}

/// Returns what is wrong with a scope, if it cannot be required.
fn scope_problem(scope: &str) -> Option<String> {
    if scope == OFFLINE_ACCESS {
        return Some(format!("`{scope}` concerns the authorization server and cannot be required"));
    }
    let is_valid = !scope.is_empty() && scope.chars().all(|c| c.is_ascii_graphic() && c != '"' && c != '\\');
    (!is_valid)
        .then(|| format!("invalid scope `{scope}`, expected visible ASCII characters without `\"`, `\\` and spaces"))
}

/// The scope with which clients request refresh tokens. Resources neither require nor announce it.
pub(crate) const OFFLINE_ACCESS: &str = "offline_access";

impl From<&str> for Scopes {
    fn from(scope: &str) -> Self {
        Self::any([scope])
    }
}

impl From<String> for Scopes {
    fn from(scope: String) -> Self {
        Self::any([scope])
    }
}

/// Requires all of these scopes.
impl<T: Into<String>, const N: usize> From<[T; N]> for Scopes {
    fn from(scopes: [T; N]) -> Self {
        Self::all(scopes)
    }
}

/// Requires all of these scopes.
impl<T: Into<String>> From<Vec<T>> for Scopes {
    fn from(scopes: Vec<T>) -> Self {
        Self::all(scopes)
    }
}

/// The author's rules that decide whether an identity meets a requirement.
#[derive(Clone, Default)]
pub(crate) struct AccessRules {
    /// The scopes that every request requires.
    pub(crate) base: Scopes,
    /// Pairs of a broad scope and a narrow one that it contains.
    pairs: Vec<(Box<str>, Box<str>)>,
    /// Decides whether its first argument contains its second.
    rule: Option<Arc<Rule>>,
}

type Rule = dyn Fn(&str, &str) -> bool + Send + Sync;

impl AccessRules {
    /// Returns whether some scopes contain other scopes.
    pub(crate) fn has_hierarchy(&self) -> bool {
        !self.pairs.is_empty() || self.rule.is_some()
    }

    /// Adds a scope that another scope contains.
    pub(crate) fn add_contained(&mut self, broad: String, narrow: String) {
        self.pairs.push((broad.into(), narrow.into()));
    }

    /// Sets the author's rule, which decides whether its first argument contains its second.
    pub(crate) fn set_rule(&mut self, rule: impl Fn(&str, &str) -> bool + Send + Sync + 'static) {
        self.rule = Some(Arc::new(rule));
    }

    /// Returns whether a sender has scopes. A sender without an identity has none.
    pub(crate) fn grants(&self, identity: Option<&Identity>, required: &Scopes) -> bool {
        let is_met = |group| identity.is_some_and(|identity| self.granted_of(identity, group).is_some());
        required.groups().all(is_met)
    }

    /// Returns the scopes that a client has to request for an operation, including the scopes that every request
    /// requires: of alternatives, the scope that was granted, or else the first.
    pub(crate) fn to_request(&self, identity: Option<&Identity>, required: Scopes) -> Vec<String> {
        let mut scopes: Vec<String> = Vec::new();
        for group in self.base.clone().and(required).groups() {
            let granted = identity.and_then(|identity| self.granted_of(identity, group));
            let scope = granted.or_else(|| group.first().map(|scope| &**scope));
            if let Some(scope) = scope.filter(|scope| !scopes.iter().any(|other| other == scope)) {
                scopes.push(scope.to_owned());
            }
        }
        scopes
    }

    /// Returns the first of several alternatives that an identity has.
    fn granted_of<'a>(&self, identity: &Identity, alternatives: &'a [Box<str>]) -> Option<&'a str> {
        let mut alternatives = alternatives.iter().map(|scope| &**scope);
        alternatives.find(|required| identity.scopes().any(|granted| self.contains(granted, required)))
    }

    /// Returns whether a scope equals another scope or contains it, directly or through scopes between them.
    fn contains(&self, broad: &str, narrow: &str) -> bool {
        if broad == narrow {
            return true;
        }
        let mut reached = vec![broad];
        let mut next = 0;
        while let Some(&scope) = reached.get(next) {
            next += 1;
            if scope == narrow || self.rule.as_ref().is_some_and(|rule| rule(scope, narrow)) {
                return true;
            }
            for (_, contained) in self.pairs.iter().filter(|(broad, _)| **broad == *scope) {
                if !reached.contains(&&**contained) {
                    reached.push(contained);
                }
            }
        }
        false
    }
}

debug!(AccessRules, self, base: self.base, pairs: self.pairs);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_combined() {
        for (scopes, expected) in [
            (Scopes::from("a"), r#"[["a"]]"#),
            (Scopes::all(["a", "b", "a"]), r#"[["a"],["b"]]"#),
            (Scopes::any(["a", "b"]), r#"[["a","b"]]"#),
            (Scopes::any(["a", "b"]).and(["c", "d"]).and("c"), r#"[["a","b"],["c"],["d"]]"#),
            (Scopes::of_groups(&[&["a"], &["b", "c"]]), r#"[["a"],["b","c"]]"#),
            (Scopes::default(), "[]"),
        ] {
            assert_eq!(serde_json::to_string(&scopes).unwrap(), expected);
            assert_eq!(serde_json::from_str::<Scopes>(expected).unwrap(), scopes);
        }
    }

    #[test]
    fn some_scopes_cannot_be_required() {
        for (scopes, expected) in [
            (Scopes::from("notes:read"), None),
            (Scopes::all([""; 0]), Some("no scope is named")),
            (Scopes::any([""; 0]), Some("no scope is named")),
            (Scopes::from(""), Some("invalid scope ``")),
            (Scopes::from("a b"), Some("invalid scope `a b`")),
            (Scopes::from("a\""), Some("invalid scope `a\"`")),
            (Scopes::from("a\\"), Some("invalid scope `a\\`")),
            (Scopes::all(["a", "offline_access"]), Some("`offline_access` concerns")),
        ] {
            let problem = scopes.problem();
            assert_eq!(problem.is_some(), expected.is_some(), "{scopes:?}");
            assert!(problem.is_none_or(|problem| problem.starts_with(expected.unwrap())), "{scopes:?}");
        }
    }

    fn hierarchy() -> AccessRules {
        let mut hierarchy = AccessRules::default();
        for (broad, narrow) in [("admin", "write"), ("write", "read"), ("read", "list"), ("list", "read")] {
            hierarchy.add_contained(broad.to_owned(), narrow.to_owned());
        }
        // `files:*` contains every scope of files.
        hierarchy.set_rule(|broad, narrow| broad.strip_suffix('*').is_some_and(|prefix| narrow.starts_with(prefix)));
        hierarchy.add_contained("root".to_owned(), "files:*".to_owned());
        hierarchy
    }

    #[test]
    fn broad_scopes_contain_narrow_ones() {
        let hierarchy = hierarchy();
        for (granted, required, expected) in [
            (&["read"][..], Scopes::from("read"), true),
            (&["write"], Scopes::from("read"), true),
            (&["admin"], Scopes::from("list"), true),
            (&["list"], Scopes::from("read"), true),
            (&["read"], Scopes::from("write"), false),
            (&[], Scopes::from("read"), false),
            (&["readonly"], Scopes::from("read"), false),
            (&["read", "audit"], Scopes::all(["read", "audit"]), true),
            (&["admin"], Scopes::all(["read", "audit"]), false),
            (&["read"], Scopes::any(["write", "read"]), true),
            (&["read"], Scopes::any(["write", "read"]).and("audit"), false),
            (&["files:*"], Scopes::from("files:read"), true),
            (&["root"], Scopes::from("files:read"), true),
            (&["root"], Scopes::from("notes:read"), false),
            (&[], Scopes::default(), true),
        ] {
            let identity = Identity::new("ada").with_scopes(granted.iter().copied());
            assert_eq!(hierarchy.grants(Some(&identity), &required), expected, "{granted:?} {required:?}");
        }
    }

    #[test]
    fn everything_that_is_required_is_requested_at_once() {
        let hierarchy = hierarchy();
        for (granted, required, expected) in [
            (&[][..], Scopes::all(["read", "audit"]), &["read", "audit"][..]),
            (&["read"], Scopes::all(["read", "audit"]), &["read", "audit"]),
            (&[], Scopes::any(["read", "admin"]), &["read"]),
            (&["admin"], Scopes::any(["audit", "list"]).and("audit"), &["list", "audit"]),
            (&[], Scopes::any(["read", "write"]).and("read"), &["read"]),
        ] {
            let identity = Identity::new("ada").with_scopes(granted.iter().copied());
            assert_eq!(hierarchy.to_request(Some(&identity), required.clone()), expected, "{granted:?} {required:?}");
        }
        assert_eq!(hierarchy.to_request(None, Scopes::from("read")), ["read"]);
    }
}
