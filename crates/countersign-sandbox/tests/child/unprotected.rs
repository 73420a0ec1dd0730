//! Systems that lack a protection: the kernel really refuses it here, to the children of one host.
//!
//! Filters of system calls are inherited by what a thread starts. A host that is made in a filtered thread starts its
//! children there, so that they find a kernel without landlock, without seccomp or without limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign_kernel::Gateway;
use countersign_kernel::ports::{ScriptFault, ScriptHost};
use countersign_sandbox::{ChildHost, ChildOptions, Layer, RequiredIsolation};
use countersign_testkit::lab;
use countersign_testkit::ledger::Ledger;
use countersign_testkit::memory_store::MemoryStore;
use countersign_testkit::world::{InTests as _, agent, script, session};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use serde_json::json;

use super::scene::{returned, run, worker};

/// What a kernel can lack: the layers that then must be named, and the calls it refuses, with which error.
const LACKING: [(&[&str], &[libc::c_long], i32); 3] = [
    (&["landlock"], &[libc::SYS_landlock_create_ruleset], libc::ENOSYS),
    (&["seccomp"], &[libc::SYS_seccomp], libc::ENOSYS),
    (&["memory", "resources"], &[libc::SYS_setrlimit, libc::SYS_prlimit64], libc::EPERM),
];

/// A host whose children meet a kernel that refuses these calls.
fn host_on_a_kernel_without(calls: &[libc::c_long], error: i32, required: RequiredIsolation) -> ChildHost {
    let rules: BTreeMap<i64, _> = calls.iter().map(|call| (*call, vec![])).collect();
    let refusal = SeccompAction::Errno(error.unsigned_abs());
    let machine = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, machine).unwrap();
    let filter = BpfProgram::try_from(filter).unwrap();
    let made = std::thread::spawn(move || {
        seccompiler::apply_filter(&filter).unwrap();
        ChildHost::new(ChildOptions { warm: 1, isolation: required, ..worker() }).unwrap()
    });
    made.join().unwrap()
}

#[tokio::test]
async fn where_landlock_seccomp_or_limits_are_missing_no_script_runs_and_the_error_names_them() {
    for (layers, calls, error) in LACKING {
        let host = host_on_a_kernel_without(calls, error, RequiredIsolation::Strict);
        let fault = host.open().await.err().unwrap();
        assert_eq!(fault.code(), "sandbox_unavailable");
        let ScriptFault::NotIsolated { missing } = &fault else { panic!("{fault:?}") };
        let is_named = |name: &str| {
            [" absent: ", " partial: "].iter().any(|how| missing.contains(&format!("{name}{how}")))
        };
        let all = ["descriptors", "lifetime", "memory", "resources", "landlock", "seccomp"];
        let named: Vec<&str> = all.into_iter().filter(|name| is_named(name)).collect();
        assert_eq!(named, layers, "{missing}");
        let words = fault.to_string();
        assert!(words.contains(layers[0]) && words.contains("allow_weaker = true"), "{words}");
    }
}

#[tokio::test]
async fn a_child_says_itself_what_its_kernel_refused() {
    let host = host_on_a_kernel_without(
        &[libc::SYS_landlock_create_ruleset],
        libc::ENOSYS,
        RequiredIsolation::Strict,
    );
    let isolation = host.isolation().await.unwrap();
    assert!(matches!(isolation.landlock, Layer::Absent(_)), "{isolation}");
    assert_eq!(isolation.seccomp, Layer::Full);
}

#[tokio::test]
async fn weaker_isolation_runs_scripts_only_where_it_is_allowed() {
    for (layers, calls, error) in LACKING {
        let host = host_on_a_kernel_without(calls, error, RequiredIsolation::AllowWeaker);
        assert_eq!(returned(&run(&host, "return 1 + 1").await.unwrap()), json!(2), "without {layers:?}");
    }
}

#[tokio::test]
async fn a_script_that_is_refused_for_want_of_protection_makes_no_call_and_leaves_nothing() {
    let host = host_on_a_kernel_without(
        &[libc::SYS_landlock_create_ruleset],
        libc::ENOSYS,
        RequiredIsolation::Strict,
    );
    let ledger = Ledger::default();
    let store = Arc::new(MemoryStore::default());
    let gateway = Gateway::on(store).plugin(lab::plugin(&ledger)).scripts(host).start().await.unwrap();
    gateway.open_session(&agent(), "test", Some(session())).await.unwrap();
    let refused = gateway.run(script("return await tools.lab.read({ what: 'x' });")).await.unwrap_err();
    assert_eq!(refused.code(), "sandbox_unavailable");
    assert!(ledger.effects().is_empty());
    assert_eq!(gateway.live(), 0);
    assert!(
        gateway.ask("lab.read", json!({ "what": "x" })).await.unwrap().success(),
        "calls need no sandbox"
    );
}
