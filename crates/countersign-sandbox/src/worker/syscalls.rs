//! The system calls an isolated child may make: read its orders, write its answers, manage memory, end.
//!
//! Promise: everything that is not on this list ends the process at once. Memory can never be made executable. Opening a
//! file is refused rather than kill_process, since the allocator of the C library looks at a setting of the kernel when it gives
//! back memory, and does without if it may not.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// System calls that are allowed with any arguments, each with the reason why the engine needs it.
const ALWAYS_ALLOWED: &[libc::c_long] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // Waiting for one another: the main thread waits for the script's.
    libc::SYS_futex,
    libc::SYS_sched_yield,
    // Interrupted by a stop signal, a wait is taken up again.
    libc::SYS_restart_syscall,
    // The engine's own limit of computing time; where the kernel's shared page answers, no call is made.
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    // Seeds of hash maps. A script's random numbers come from its program.
    libc::SYS_getrandom,
    // Crashing in an orderly way: stack overflow handler, abort.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_getpid,
    libc::SYS_gettid,
    // Ending.
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// System calls that return an error instead of killing the process.
const REFUSED: &[libc::c_long] = &[libc::SYS_openat];

/// Installs both filters for all threads of this process. Of two answers the kernel takes the stricter.
pub(crate) fn install() -> Result<(), String> {
    let filters = refusing().and_then(|first| Ok([first, allowing()?])).map_err(|error| error.to_string())?;
    filters.iter().try_for_each(|filter| {
        seccompiler::apply_filter_all_threads(filter).map_err(|error| error.to_string())
    })
}

fn refusing() -> Result<BpfProgram, BackendError> {
    let rules = REFUSED.iter().map(|call| (*call, vec![])).collect();
    let refusal = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refusal, architecture()?).and_then(BpfProgram::try_from)
}

fn allowing() -> Result<BpfProgram, BackendError> {
    let listed = ALWAYS_ALLOWED.iter().chain(REFUSED);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = listed.map(|call| (*call, vec![])).collect();
    let stdin = rule(&[argument(0, SeccompCmpOp::Eq, 0)?])?;
    rules.insert(libc::SYS_read, vec![stdin]);
    let stdout = rule(&[argument(0, SeccompCmpOp::Eq, 1)?])?;
    let stderr = rule(&[argument(0, SeccompCmpOp::Eq, 2)?])?;
    rules.insert(libc::SYS_write, vec![stdout, stderr]);
    let executable = u64::from(libc::PROT_EXEC.unsigned_abs());
    let protection = argument(2, SeccompCmpOp::MaskedEq(executable), 0)?;
    rules.insert(libc::SYS_mmap, vec![rule(std::slice::from_ref(&protection))?]);
    rules.insert(libc::SYS_mprotect, vec![rule(&[protection])?]);
    // abort() signals its own process only.
    let own = argument(0, SeccompCmpOp::Eq, u64::from(std::process::id()))?;
    rules.insert(libc::SYS_tgkill, vec![rule(&[own])?]);
    let kill_process = SeccompAction::KillProcess;
    SeccompFilter::new(rules, kill_process, SeccompAction::Allow, architecture()?)
        .and_then(BpfProgram::try_from)
}

fn architecture() -> Result<TargetArch, BackendError> {
    TargetArch::try_from(std::env::consts::ARCH)
}

fn rule(conditions: &[SeccompCondition]) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.to_vec())
}

fn argument(index: u8, is: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, is, value)
}
