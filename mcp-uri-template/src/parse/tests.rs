//! Parsing and its errors.

use crate::{Operator, Part, parse};

fn literal(text: &str) -> Part {
    Part::Literal(text.to_owned())
}

fn expression(operator: Operator, variables: &[&str]) -> Part {
    Part::Expression { operator, variables: variables.iter().map(|name| (*name).to_owned()).collect() }
}

#[test]
fn templates_have_a_maximum_length() {
    for (length, is_valid) in [(4096, true), (4097, false)] {
        let template = format!("a:{}{{b}}", "x".repeat(length - 5));
        assert_eq!(parse(&template).is_ok(), is_valid, "{length}");
    }
    let commas = format!("a:{{{}}}", ",".repeat(200_000));
    assert_eq!(parse(&commas).unwrap_err().len(), 1);
    let uri = format!("a:{}", "x".repeat(200_000));
    assert_eq!(parse(&uri), Ok(vec![literal(&uri)]));
}

#[test]
fn templates_of_levels_1_to_3_are_parsed() {
    for (template, expected) in [
        ("notes://all", vec![literal("notes://all")]),
        ("a:{b}", vec![literal("a:"), expression(Operator::Simple, &["b"])]),
        ("file:///{+path}", vec![literal("file:///"), expression(Operator::Reserved, &["path"])]),
        ("a:b{#c}", vec![literal("a:b"), expression(Operator::Fragment, &["c"])]),
        ("a:b{.c}", vec![literal("a:b"), expression(Operator::Label, &["c"])]),
        ("a:b{/c,d}", vec![literal("a:b"), expression(Operator::Path, &["c", "d"])]),
        ("a:b{;c}", vec![literal("a:b"), expression(Operator::PathParameter, &["c"])]),
        (
            "a:{b}{?c,d}{&e}x",
            vec![
                literal("a:"),
                expression(Operator::Simple, &["b"]),
                expression(Operator::Query, &["c", "d"]),
                expression(Operator::QueryContinuation, &["e"]),
                literal("x"),
            ],
        ),
        ("{scheme}://x", vec![expression(Operator::Simple, &["scheme"]), literal("://x")]),
        ("a:{b.c_1}%20é", vec![literal("a:"), expression(Operator::Simple, &["b.c_1"]), literal("%20é")]),
    ] {
        assert_eq!(parse(template).as_deref(), Ok(expected.as_slice()), "{template}");
    }
}

#[test]
fn errors_point_at_the_offending_text() {
    for (template, expected) in [
        ("", &[("", "`` has no scheme")][..]),
        ("notes", &[("notes", "`notes` has no scheme")]),
        ("1a:b", &[("1a:b", "`1a:b` has no scheme")]),
        ("/a:b", &[("/a:b", "`/a:b` has no scheme")]),
        ("a:{", &[("{", "`{` is not closed")]),
        ("a/{b}", &[("a/{b}", "`a/{b}` has no scheme")]),
        ("a:{b", &[("{b", "`{b` is not closed")]),
        ("a:{b{c}", &[("{b", "`{b` is not closed")]),
        ("a:b}", &[("}", "unmatched `}`")]),
        ("a:{}", &[("{}", "`{}` has no variable")]),
        ("a:{?}", &[("{?}", "`{?}` has a variable without a name")]),
        ("a:{b,}", &[("{b,}", "`{b,}` has a variable without a name")]),
        ("a:{b c}", &[("b c", "`b c` is not a valid variable name")]),
        ("a:{b..c}", &[("b..c", "`b..c` is not a valid variable name")]),
        ("a:{ü}", &[("ü", "`ü` is not a valid variable name")]),
        ("a:{b}{b}", &[("b", "duplicate variable `b`")]),
        ("a:{?b,b}", &[("b", "duplicate variable `b`")]),
        ("a:{!b}", &[("{!b}", "unknown operator `!` in `{!b}`")]),
        ("a: b", &[(" ", "` ` is not allowed in a URI")]),
        ("a:b\u{7}", &[("\u{7}", "`\\u{7}` is not allowed in a URI")]),
        ("a:%2", &[("%", "`%` is not followed by two hexadecimal digits")]),
        ("a:{b c}{", &[("b c", "`b c` is not a valid variable name"), ("{", "`{` is not closed")]),
    ] {
        let errors = parse(template).expect_err(template);
        let found: Vec<_> =
            errors.iter().map(|error| (&template[error.range.clone()], error.message.as_str())).collect();
        assert_eq!(found, expected, "{template}");
    }
}

#[test]
fn characters_that_no_uri_contains_are_to_be_encoded() {
    for (c, encoded) in [
        (' ', "%20"),
        ('"', "%22"),
        ('<', "%3C"),
        ('>', "%3E"),
        ('\\', "%5C"),
        ('^', "%5E"),
        ('`', "%60"),
        ('|', "%7C"),
        ('\u{7f}', "%7F"),
    ] {
        let template = format!("a:{c}");
        let errors = parse(&template).expect_err(&template);
        assert_eq!(errors.len(), 1, "{template}");
        assert_eq!(errors[0].help, Some(format!("write `{encoded}`")));
    }
}

#[test]
fn level_4_modifiers_are_rejected() {
    for (template, at, help) in [
        ("a:{b*}", "b*", "write `b` without `*`"),
        ("a:{?b,c*}", "c*", "write `c` without `*`"),
        ("a:{b:3}", "b:3", "write `b`, and constrain the parameter: `#[arg(length = …)]`"),
    ] {
        let errors = parse(template).expect_err(template);
        assert_eq!(errors.len(), 1, "{template}");
        assert_eq!(&template[errors[0].range.clone()], at);
        assert_eq!(errors[0].help.as_deref(), Some(help));
    }
}
