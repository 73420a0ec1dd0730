//! What must not compile, and beside each its twin that does: so that the failure is for the right reason.

#[test]
fn forgetting_to_ask_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
    // Cargo unifies features, so in this workspace the door to the kernel may be open; a permit cannot be forged either way.
    let door = if cfg!(feature = "kernel") { "door_open" } else { "door_shut" };
    cases.compile_fail(format!("tests/compile_fail/{door}/*.rs"));
    cases.pass("tests/compile_pass/*.rs");
}
