//! What the macros accept and refuse, and the words in which they do.
//!
//! A change in a `.stderr` file is a change of what users read. `TRYBUILD=overwrite` writes them anew.

#[test]
fn macros_say_what_is_wrong() {
    let cases = trybuild::TestCases::new();
    cases.pass("ui/*/pass/*.rs");
    cases.compile_fail("ui/*/fail/*.rs");
}
