//! The installed tools. A missing tool that CI needs is an error that says how to get it; one that it can do without is
//! installed where that is quick, and otherwise skipped aloud.

use std::path::Path;
use std::time::Duration;

use anyhow::bail;

use crate::machine::Invocation;

#[derive(Debug)]
pub(super) struct Toolbox {
    pub(super) has_nextest: bool,
    /// Why the step must be skipped, if it must; the same for the next.
    pub(super) wasm32_missing: Option<&'static str>,
    pub(super) deny_missing: Option<&'static str>,
}

impl Toolbox {
    pub(super) fn prepare(root: &Path) -> anyhow::Result<Toolbox> {
        require_components(root)?;
        install_packages(root)?;
        let has_nextest = Invocation::new("cargo nextest --version").succeeds(root);
        if !has_nextest {
            println!(
                "cargo-nextest is not installed (`cargo install cargo-nextest --locked`): using `cargo test`"
            );
        }
        let wasm32_missing = wasm32_missing(root);
        let has_deny = Invocation::new("cargo deny --version").succeeds(root);
        let deny_missing =
            (!has_deny).then_some("cargo-deny is not installed (`cargo install cargo-deny --locked`)");
        Ok(Toolbox { has_nextest, wasm32_missing, deny_missing })
    }
}

fn require_components(root: &Path) -> anyhow::Result<()> {
    let required = [("rustfmt", "cargo fmt --version"), ("clippy", "cargo clippy --version")];
    let missing: Vec<_> = required
        .into_iter()
        .filter(|(_, probe)| !Invocation::new(probe).succeeds(root))
        .map(|(component, _)| component)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    bail!("missing: {}. Install with `rustup component add {}`", missing.join(", "), missing.join(" "));
}

/// The console is tested in a real browser, and TLS with certificates that openssl makes. Where Debian's packages cannot be had,
/// the tests themselves say what they miss.
fn install_packages(root: &Path) -> anyhow::Result<()> {
    const PROGRAMS: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromedriver", "/usr/bin/openssl"];
    let is_there = || PROGRAMS.iter().all(|program| Path::new(program).is_file());
    if is_there() {
        return Ok(());
    }
    let install =
        "apt-get install -y -qq --no-install-recommends chromium chromium-driver fonts-dejavu-core openssl";
    let install = Invocation::new(install).with_variable("DEBIAN_FRONTEND", "noninteractive");
    println!("one of {} is missing; the tests need all of them: `{install}`", PROGRAMS.join(", "));
    if !Invocation::new("apt-get --version").succeeds(root) {
        println!("there is no apt-get here: install them by hand, or tests will fail");
        return Ok(());
    }
    // Lists that are too old name packages that are gone.
    if !install.run(root)?.success() && Invocation::new("apt-get update -qq").run(root)?.success() {
        install.run(root)?;
    }
    if !is_there() {
        println!("they could not be installed: tests will fail");
    }
    Ok(())
}

/// Asks rustup for the target where it is missing: a few megabytes, or no network and a minute lost at most.
fn wasm32_missing(root: &Path) -> Option<&'static str> {
    const PATIENCE: Duration = Duration::from_secs(60);
    if has_wasm32(root) {
        return None;
    }
    println!(
        "the target wasm32-unknown-unknown is missing: trying `rustup target add wasm32-unknown-unknown`"
    );
    let added = Invocation::new("rustup target add wasm32-unknown-unknown").succeeds_within(root, PATIENCE);
    if added && has_wasm32(root) {
        return None;
    }
    Some("the target wasm32-unknown-unknown is not installed, and rustup could not add it")
}

/// `rustc` names the folder whether or not it exists, and works without rustup.
fn has_wasm32(root: &Path) -> bool {
    Invocation::new("rustc --print target-libdir --target wasm32-unknown-unknown")
        .output(root)
        .is_some_and(|folder| Path::new(&folder).is_dir())
}
