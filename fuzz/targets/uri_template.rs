//! A template and a URI, on two lines: the values of a match expand to a URI that matches with the same values.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use mcp_runtime_uri_template::{MAX_URI_LENGTH, Part, expand, matches, parse};

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((template, uri)) = std::str::from_utf8(data).ok().and_then(|text| text.split_once('\n')) else {
        return Corpus::Reject;
    };
    let parts = match parse(template) {
        Ok(parts) => parts,
        Err(errors) => {
            for error in errors {
                assert!(template.get(error.range.clone()).is_some(), "{error:?}");
            }
            return Corpus::Keep;
        }
    };
    round_trip(&parts, uri);
    // Matching in quadratic time exceeds the time limit.
    let longer = uri.repeat((MAX_URI_LENGTH / 4).checked_div(uri.len()).unwrap_or_default());
    round_trip(&parts, &longer);
    Corpus::Keep
});

fn round_trip(parts: &[Part], uri: &str) {
    let Some(mut values) = matches(parts, uri) else { return };
    let pairs: Vec<_> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let expanded = expand(parts, &pairs);
    if expanded.len() > MAX_URI_LENGTH || encodes_delimiter(uri) {
        return;
    }
    let again = matches(parts, &expanded);
    let mut again = again.unwrap_or_else(|| panic!("{uri:?} matches with {pairs:?}, but {expanded:?} does not match"));
    let pairs_again: Vec<_> = again.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(expand(parts, &pairs_again), expanded, "{uri:?}");
    // The named values of a URI may have any order.
    values.sort();
    again.sort();
    assert_eq!(values, again, "{uri:?}, {expanded:?}");
}

/// Whether the URI has an encoded character that `{+a}` expands verbatim once it is decoded, where it may separate values:
/// a reserved one or `%`.
fn encodes_delimiter(uri: &str) -> bool {
    uri.split('%').skip(1).any(|rest| {
        let byte = rest.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        byte.is_some_and(|byte| b":/?#[]@!$&'()*+,;=%".contains(&byte))
    })
}
