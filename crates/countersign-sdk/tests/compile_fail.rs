//! What must not compile, and beside each its twin that does: so that the failure is for the right reason.

#[test]
fn forgetting_to_ask_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
    cases.pass("tests/compile_pass/*.rs");
}
