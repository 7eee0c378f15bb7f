//! Expansion and matching, with the examples of RFC 6570.

use crate::{
    MAX_URI_LENGTH,
    Operator::{self, Fragment, Label, Path, PathParameter, Query, QueryContinuation, Reserved, Simple},
    Part::{Expression, Literal},
    expand, matches,
};

/// A part as the macros emit it.
type Part = crate::Part<&'static str, &'static [&'static str]>;

/// The values of <https://www.rfc-editor.org/rfc/rfc6570#section-1.2>.
const VALUES: &[(&str, &str)] = &[
    ("var", "value"),
    ("hello", "Hello World!"),
    ("half", "50%"),
    ("who", "fred"),
    ("base", "http://example.com/home/"),
    ("path", "/foo/bar"),
    ("v", "6"),
    ("x", "1024"),
    ("y", "768"),
    ("empty", ""),
    ("dub", "me/too"),
    ("dom", "example.com"),
];

const fn of(operator: Operator, variables: &'static [&'static str]) -> Part {
    Expression { operator, variables }
}

/// Checks the examples of sections 1.2 and 3.2. The last column indicates whether matching returns the same values.
#[test]
fn rfc_examples_expand_and_match() {
    for (parts, expected, back) in [
        (&[of(Simple, &["var"])] as &[Part], "value", true),
        (&[of(Simple, &["hello"])], "Hello%20World%21", true),
        (&[of(Simple, &["half"])], "50%25", true),
        (&[Literal("O"), of(Simple, &["empty"]), Literal("X")], "OX", false),
        (&[Literal("O"), of(Simple, &["undef"]), Literal("X")], "OX", false),
        (&[of(Simple, &["x", "y"])], "1024,768", true),
        (&[of(Simple, &["x", "hello", "y"])], "1024,Hello%20World%21,768", true),
        (&[Literal("?"), of(Simple, &["x", "empty"])], "?1024,", false),
        (&[Literal("?"), of(Simple, &["x", "undef"])], "?1024", false),
        (&[Literal("?"), of(Simple, &["undef", "y"])], "?768", false),
        (&[Literal("map?"), of(Simple, &["x", "y"])], "map?1024,768", true),
        (&[of(Reserved, &["var"])], "value", true),
        (&[of(Reserved, &["hello"])], "Hello%20World!", true),
        (&[of(Reserved, &["half"])], "50%25", true),
        (&[of(Simple, &["base"]), Literal("index")], "http%3A%2F%2Fexample.com%2Fhome%2Findex", true),
        (&[of(Reserved, &["base"]), Literal("index")], "http://example.com/home/index", true),
        (&[Literal("O"), of(Reserved, &["empty"]), Literal("X")], "OX", false),
        (&[of(Reserved, &["path"]), Literal("/here")], "/foo/bar/here", true),
        (&[Literal("here?ref="), of(Reserved, &["path"])], "here?ref=/foo/bar", true),
        (
            &[Literal("up"), of(Reserved, &["path"]), of(Simple, &["var"]), Literal("/here")],
            "up/foo/barvalue/here",
            false,
        ),
        (&[of(Reserved, &["x", "hello", "y"])], "1024,Hello%20World!,768", true),
        (&[of(Reserved, &["path", "x"]), Literal("/here")], "/foo/bar,1024/here", true),
        (&[Literal("X"), of(Fragment, &["var"])], "X#value", true),
        (&[Literal("X"), of(Fragment, &["hello"])], "X#Hello%20World!", true),
        (&[of(Fragment, &["x", "hello", "y"])], "#1024,Hello%20World!,768", true),
        (&[of(Fragment, &["path", "x"]), Literal("/here")], "#/foo/bar,1024/here", true),
        (&[of(Fragment, &["half"])], "#50%25", true),
        (&[Literal("foo"), of(Fragment, &["empty"])], "foo#", false),
        (&[Literal("foo"), of(Fragment, &["undef"])], "foo", false),
        (&[of(Label, &["who"])], ".fred", true),
        (&[of(Label, &["who", "who"])], ".fred.fred", true),
        (&[of(Label, &["half", "who"])], ".50%25.fred", true),
        (&[Literal("www"), of(Label, &["dom"])], "www.example.com", true),
        (&[Literal("X"), of(Label, &["x", "y"])], "X.1024.768", true),
        (&[Literal("X"), of(Label, &["empty"])], "X.", false),
        (&[of(Path, &["who"])], "/fred", true),
        (&[of(Path, &["half", "who"])], "/50%25/fred", true),
        (&[of(Path, &["who", "dub"])], "/fred/me%2Ftoo", true),
        (&[of(Path, &["var", "empty"])], "/value/", false),
        (&[of(Path, &["var", "x"]), Literal("/here")], "/value/1024/here", true),
        (&[of(PathParameter, &["who"])], ";who=fred", true),
        (&[of(PathParameter, &["half"])], ";half=50%25", true),
        (&[of(PathParameter, &["empty"])], ";empty", true),
        (&[of(PathParameter, &["v", "empty", "who"])], ";v=6;empty;who=fred", true),
        (&[of(PathParameter, &["v", "undef", "who"])], ";v=6;who=fred", true),
        (&[of(Query, &["who"])], "?who=fred", true),
        (&[of(Query, &["half"])], "?half=50%25", true),
        (&[of(Query, &["x", "y"])], "?x=1024&y=768", true),
        (&[of(Query, &["x", "y", "empty"])], "?x=1024&y=768&empty=", true),
        (&[of(Query, &["x", "y", "undef"])], "?x=1024&y=768", true),
        (&[of(QueryContinuation, &["who"])], "&who=fred", true),
        (&[Literal("?fixed=yes"), of(QueryContinuation, &["x"])], "?fixed=yes&x=1024", true),
        (&[of(QueryContinuation, &["x", "y", "empty"])], "&x=1024&y=768&empty=", true),
        (&[of(QueryContinuation, &["undef"])], "", true),
    ] {
        assert_eq!(expand(parts, VALUES), expected, "{parts:?}");
        if back {
            let names = parts.iter().flat_map(|part| match part {
                Expression { variables, .. } => variables,
                Literal(_) => &[] as &[_],
            });
            let values: Vec<(&str, String)> = names
                .filter_map(|name| VALUES.iter().find(|(known, _)| known == name))
                .map(|&(name, value)| (name, value.to_owned()))
                .collect();
            assert_eq!(matches(parts, expected), Some(values), "{parts:?}");
        }
    }
}

#[test]
fn matching_uris_yield_decoded_values() {
    const FILE: &[Part] = &[Literal("file:///"), of(Reserved, &["path"])];
    const NOTE: &[Part] = &[Literal("note://"), of(Simple, &["id"])];
    const NAME: &[Part] = &[of(Simple, &["name"]), Literal("."), of(Simple, &["end"])];
    const FIND: &[Part] = &[Literal("find:/"), of(Reserved, &["path"]), of(Query, &["q", "n"])];
    const PAGE: &[Part] = &[Literal("page:/"), of(Reserved, &["path"]), Literal(".md"), of(Query, &["rev"])];
    const MORE: &[Part] = &[of(Query, &["a"]), of(QueryContinuation, &["b", "c"]), of(Fragment, &["f"])];
    const PAIR: &[Part] = &[of(Simple, &["a"]), of(Simple, &["b"])];
    const BOOK: &[Part] = &[Literal("bücher:/"), of(Simple, &["id"])];
    const CELL: &[Part] = &[Literal("s"), of(PathParameter, &["row", "col"]), of(Path, &["rest"])];
    const TURN: &[Part] = &[Literal("turn"), of(PathParameter, &["row"]), of(Query, &["q"])];
    const ENDS: &[Part] = &[Literal("ends:/"), of(Reserved, &["path"]), of(Label, &["end"])];
    for (parts, uri, expected) in [
        (FILE, "file:///a/b.txt", Some(&[("path", "a/b.txt")] as &[(&str, &str)])),
        (FILE, "file:///a%2Fb?c#d", Some(&[("path", "a/b?c#d")])),
        (FILE, "file:///ü x", Some(&[("path", "ü x")])),
        (FILE, "file:///%C3%BC", Some(&[("path", "ü")])),
        (FILE, "file:///%C3", None),
        (FILE, "file:///%FF", None),
        (FILE, "file:///%", None),
        (FILE, "file:///%2", None),
        (FILE, "file:///%zz", None),
        (FILE, "file:///%é", None),
        (FILE, "file:///a\nb", None),
        (FILE, "file:///", None),
        (FILE, "file:/", None),
        (FILE, "", None),
        (NOTE, "note://7", Some(&[("id", "7")])),
        (NOTE, "note://a%2Fb", Some(&[("id", "a/b")])),
        (NOTE, "note://a/b", None),
        (NOTE, "note://a?b", None),
        (NOTE, "note://a,b", None),
        (NOTE, "note://", None),
        (NOTE, "NOTE://7", None),
        (NAME, "a.tar.gz", Some(&[("name", "a.tar"), ("end", "gz")])),
        (NAME, "a.", None),
        (NAME, ".a", None),
        (FIND, "find:/a/b", Some(&[("path", "a/b")])),
        (FIND, "find:/a/b?q=x%26y", Some(&[("path", "a/b"), ("q", "x&y")])),
        (FIND, "find:/a?n=2&q=x/y?z=1", Some(&[("path", "a"), ("n", "2"), ("q", "x/y?z=1")])),
        (FIND, "find:/a?n&q=", Some(&[("path", "a"), ("n", ""), ("q", "")])),
        (FIND, "find:/a?n=2&other=1", None),
        (FIND, "find:/a?n=2&n=3", None),
        (FIND, "find:/a?nn=2", None),
        (FIND, "find:/a?q=b\nc", None),
        (FIND, "find:/a?", None),
        (FIND, "find:/a?n=2&", None),
        (PAGE, "page:/a/b.md?rev=c.md", Some(&[("path", "a/b"), ("rev", "c.md")])),
        (PAGE, "page:/a.md.md", Some(&[("path", "a.md")])),
        (MORE, "?a=1&c=3&b=2#x", Some(&[("a", "1"), ("c", "3"), ("b", "2"), ("f", "x")])),
        (MORE, "&b=2#x", Some(&[("b", "2"), ("f", "x")])),
        (MORE, "#x", Some(&[("f", "x")])),
        (MORE, "?a=1", None),
        (PAIR, "abc", Some(&[("a", "ab"), ("b", "c")])),
        (PAIR, "a%2F", Some(&[("a", "a"), ("b", "/")])),
        (PAIR, "aü", Some(&[("a", "a"), ("b", "ü")])),
        (PAIR, "ü", None),
        (PAIR, "%2F", None),
        (BOOK, "bücher:/1", Some(&[("id", "1")])),
        (BOOK, "b%C3%BCcher:/1", Some(&[("id", "1")])),
        (BOOK, "bucher:/1", None),
        (CELL, "s;col=2;row=1/x", Some(&[("col", "2"), ("row", "1"), ("rest", "x")])),
        (CELL, "s/x", Some(&[("rest", "x")])),
        (CELL, "s;other=1/x", None),
        (TURN, "turn;row=1?q=2", Some(&[("row", "1"), ("q", "2")])),
        (ENDS, "ends:/a.b.c", Some(&[("path", "a.b"), ("end", "c")])),
        (&[], "", Some(&[])),
        (&[], "a", None),
        (&[Literal("config://app")], "config://app", Some(&[])),
        (&[Literal("config://app")], "config://app/", None),
    ] {
        let expected =
            expected.map(|pairs| pairs.iter().map(|&(name, value)| (name, value.to_owned())).collect::<Vec<_>>());
        assert_eq!(matches(parts, uri), expected, "{uri}");
    }
}

/// An expanded template matches, and yields the values that it was expanded with.
#[test]
fn expanded_templates_match() {
    let operators = [Simple, Reserved, Fragment, Label, Path, PathParameter, Query, QueryContinuation];
    for (first, second) in operators.into_iter().flat_map(|one| operators.map(|other| (one, other))) {
        let parts: [Part; 4] = [Literal("a:"), of(first, &["x"]), Literal("#"), of(second, &["y"])];
        for y in ["1", "a;b", "b?c", "c&d=e", "e,f/g.h", "ü %"] {
            let values = [("x", "1"), ("y", y)];
            let uri = expand(&parts, &values);
            let expected = values.map(|(name, value)| (name, value.to_owned())).to_vec();
            assert_eq!(matches(&parts, &uri), Some(expected), "{first:?} {second:?} {uri}");
        }
    }
}

#[test]
fn values_are_encoded_when_expanded() {
    for (parts, values, expected) in [
        (&[Literal("a b/"), of(Simple, &["x"])] as &[Part], &[("x", "ü/")] as &[(&str, &str)], "a%20b/%C3%BC%2F"),
        (&[of(Reserved, &["x"])], &[("x", "a%20b%zz%")], "a%20b%25zz%25"),
        (&[of(Simple, &["x"])], &[("x", "a%20b")], "a%2520b"),
        (&[of(Query, &["x", "y"])], &[("y", "1"), ("y", "2")], "?y=1"),
        (&[of(Query, &["x"])], &[], ""),
    ] {
        assert_eq!(expand(parts, values), expected, "{parts:?}");
    }
}

/// Checks URIs that would take hours each if the time were quadratic in the length.
#[test]
fn hostile_uris_match_in_linear_time() {
    const MANY: &[Part] = &[
        of(Reserved, &["a", "b", "c", "d", "e"]),
        Literal(","),
        of(Reserved, &["f", "g", "h"]),
        of(Query, &["q", "r"]),
        Literal("!"),
    ];
    const NAMED: &[Part] =
        &[of(PathParameter, &["a"]), of(Query, &["q", "r"]), of(QueryContinuation, &["s"]), Literal("!")];
    let started = std::time::Instant::now();
    for (parts, unit) in [
        (MANY, ","),
        (MANY, "?"),
        (NAMED, "?"),
        (NAMED, "&"),
        (MANY, "?q="),
        (MANY, "a,?q=&"),
        (NAMED, "?q="),
        (NAMED, "&s="),
        (NAMED, ";a"),
    ] {
        let uri = unit.repeat(MAX_URI_LENGTH / unit.len());
        assert_eq!(matches(parts, &uri), None);
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(20));
    for (length, is_match) in [(MAX_URI_LENGTH, true), (MAX_URI_LENGTH + 1, false)] {
        assert_eq!(matches(&[of(Simple, &["a"])], &"a".repeat(length)).is_some(), is_match, "{length}");
    }
}
