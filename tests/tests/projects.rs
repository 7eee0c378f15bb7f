//! Programs that the macros accept, and programs that they reject with exact error messages.
//!
//! Each program is compiled as a package of its own, which takes a minute, so only `cargo test --workspace --test projects`
//! runs this test. The `.stderr` files are user interface. `TRYBUILD=overwrite` regenerates them.

#[test]
fn macros_report_mistakes() {
    let cases = trybuild::TestCases::new();
    cases.pass("ui/*/pass/*.rs");
    cases.compile_fail("ui/*/fail/*.rs");
}
