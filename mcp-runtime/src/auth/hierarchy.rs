use std::{fmt, sync::Arc};

use super::{identity::Identity, scopes::Scopes};

/// The rules by which scopes contain other scopes.
#[derive(Clone, Default)]
pub(crate) struct Hierarchy {
    /// Pairs of a broad scope and a narrow one that it contains.
    pairs: Vec<(Box<str>, Box<str>)>,
    rule: Option<Arc<Rule>>,
}

type Rule = dyn Fn(&str, &str) -> bool + Send + Sync;

impl Hierarchy {
    /// Adds a scope that another scope contains.
    pub(crate) fn add(&mut self, broad: String, narrow: String) {
        self.pairs.push((broad.into(), narrow.into()));
    }

    /// Sets the author's rule, which decides whether its first argument contains its second.
    pub(crate) fn set_rule(&mut self, rule: impl Fn(&str, &str) -> bool + Send + Sync + 'static) {
        self.rule = Some(Arc::new(rule));
    }

    /// Returns whether an identity meets a requirement.
    pub(crate) fn grants(&self, identity: &Identity, required: &Scopes) -> bool {
        required.groups().all(|group| self.granted_of(identity, group).is_some())
    }

    /// Returns the scopes that a client has to request to meet a requirement: of alternatives, the scope that was
    /// granted, or else the first.
    pub(crate) fn to_request(&self, identity: Option<&Identity>, required: &Scopes) -> Vec<String> {
        let mut scopes: Vec<String> = Vec::new();
        for group in required.groups() {
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

impl fmt::Debug for Hierarchy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hierarchy").field("pairs", &self.pairs).finish_non_exhaustive()
    }
}

/// The author's rules that decide whether an identity meets a requirement.
#[derive(Debug, Clone, Default)]
pub(crate) struct AccessRules {
    /// The scopes that every request requires.
    pub(crate) base: Scopes,
    pub(crate) hierarchy: Hierarchy,
}

impl AccessRules {
    /// Returns whether a sender has scopes. A sender without an identity has none.
    pub(crate) fn grants(&self, identity: Option<&Identity>, required: &Scopes) -> bool {
        required.is_empty() || identity.is_some_and(|identity| self.hierarchy.grants(identity, required))
    }

    /// Returns the scopes that a sender has to request for an operation, including the scopes that every request
    /// requires.
    pub(crate) fn to_request(&self, identity: Option<&Identity>, required: Scopes) -> Vec<String> {
        self.hierarchy.to_request(identity, &self.base.clone().and(required))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hierarchy() -> Hierarchy {
        let mut hierarchy = Hierarchy::default();
        for (broad, narrow) in [("admin", "write"), ("write", "read"), ("read", "list"), ("list", "read")] {
            hierarchy.add(broad.to_owned(), narrow.to_owned());
        }
        // `files:*` contains every scope of files.
        hierarchy.set_rule(|broad, narrow| broad.strip_suffix('*').is_some_and(|prefix| narrow.starts_with(prefix)));
        hierarchy.add("root".to_owned(), "files:*".to_owned());
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
            assert_eq!(hierarchy.grants(&identity, &required), expected, "{granted:?} {required:?}");
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
            assert_eq!(hierarchy.to_request(Some(&identity), &required), expected, "{granted:?} {required:?}");
        }
        assert_eq!(hierarchy.to_request(None, &Scopes::from("read")), ["read"]);
    }
}
