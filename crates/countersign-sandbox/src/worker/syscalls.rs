//! The system calls a child may make once it is sealed: read its orders, write its answers, manage memory, end.
//!
//! Promise: everything that is not on this list ends the process at once. Memory can never be made executable.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Allowed with whatever arguments. Why a script's engine needs each of them stands beside it.
const FREE: &[libc::c_long] = &[
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
    // Seeds of hash maps. What a script sees as random comes from its program.
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

/// Installs the filter for all threads of this process.
pub(crate) fn install() -> Result<(), String> {
    let filter = filter().map_err(|error| error.to_string())?;
    seccompiler::apply_filter_all_threads(&filter).map_err(|error| error.to_string())
}

fn filter() -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = FREE.iter().map(|call| (*call, vec![])).collect();
    let stdin = rule(&[argument(0, SeccompCmpOp::Eq, 0)?])?;
    rules.insert(libc::SYS_read, vec![stdin]);
    let stdout = rule(&[argument(0, SeccompCmpOp::Eq, 1)?])?;
    let stderr = rule(&[argument(0, SeccompCmpOp::Eq, 2)?])?;
    rules.insert(libc::SYS_write, vec![stdout, stderr]);
    let executable = u64::from(libc::PROT_EXEC.unsigned_abs());
    let protection = argument(2, SeccompCmpOp::MaskedEq(executable), 0)?;
    rules.insert(libc::SYS_mmap, vec![rule(std::slice::from_ref(&protection))?]);
    rules.insert(libc::SYS_mprotect, vec![rule(&[protection])?]);
    // abort() signals itself, and nobody else.
    let own = argument(0, SeccompCmpOp::Eq, u64::from(std::process::id()))?;
    rules.insert(libc::SYS_tgkill, vec![rule(&[own])?]);
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, architecture)?;
    BpfProgram::try_from(filter)
}

fn rule(conditions: &[SeccompCondition]) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.to_vec())
}

fn argument(index: u8, is: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, is, value)
}
