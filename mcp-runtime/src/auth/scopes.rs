use serde::{Deserialize, Serialize};

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
pub(crate) fn scope_problem(scope: &str) -> Option<String> {
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
            (Scopes::all(["a", "offline_access"]), Some("`offline_access` concerns")),
        ] {
            let problem = scopes.problem();
            assert_eq!(problem.is_some(), expected.is_some(), "{scopes:?}");
            assert!(problem.is_none_or(|problem| problem.starts_with(expected.unwrap())), "{scopes:?}");
        }
    }
}
