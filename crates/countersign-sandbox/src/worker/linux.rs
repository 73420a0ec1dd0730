//! The layers of isolation that Linux offers. Each is irrevocable, and each returns what it achieved.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus, Scope,
};
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;

use crate::worker::isolation::{Bounds, Layer};
use crate::worker::syscalls;

/// The kernel interface of landlock that counts as full: files, ports, signals and abstract sockets (Linux 6.12).
const LANDLOCK_FULL: ABI = ABI::V6;

/// Where inherited descriptors begin.
const FIRST_INHERITED: i32 = 3;

/// Up to here descriptors are tried one by one, if the kernel does not say which there are.
const TRIED_DESCRIPTORS: i32 = 4096;

/// Closes every descriptor that the parent left open.
pub(crate) fn close_inherited() -> Layer {
    let listed: Option<Vec<i32>> = std::fs::read_dir("/proc/self/fd").ok().map(|entries| {
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    });
    let (open, layer) = match listed {
        Some(open) => (open, Layer::Full),
        None => (
            (FIRST_INHERITED..TRIED_DESCRIPTORS).collect(),
            Layer::Partial(format!("without /proc only those below {TRIED_DESCRIPTORS} are closed")),
        ),
    };
    for fd in open.into_iter().filter(|fd| *fd >= FIRST_INHERITED) {
        // The descriptor of the list itself is closed already; that error is expected.
        let _ = nix::unistd::close(fd);
    }
    layer
}

/// No core dump, no debugger, no look into `/proc/<pid>/mem` by others of the same user.
pub(crate) fn hide_memory() -> Layer {
    let hidden = prctl::set_dumpable(false).and_then(|()| setrlimit(Resource::RLIMIT_CORE, 0, 0));
    hidden.map_or_else(|errno| Layer::Absent(errno.to_string()), |()| Layer::Full)
}

/// The kernel kills this process when its parent dies, in whatever state it is.
pub(crate) fn die_with_parent() -> Layer {
    prctl::set_pdeathsig(Signal::SIGKILL)
        .map_or_else(|errno| Layer::Absent(errno.to_string()), |()| Layer::Full)
}

/// Enters a landlock domain without any rights.
pub(crate) fn give_up_files_and_network() -> Layer {
    let restricted = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK_FULL))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(LANDLOCK_FULL)))
        .and_then(|rules| rules.scope(Scope::from_all(LANDLOCK_FULL)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self);
    match restricted.map(|status| status.ruleset) {
        Ok(RulesetStatus::FullyEnforced) => Layer::Full,
        Ok(RulesetStatus::PartiallyEnforced) => {
            Layer::Partial("the kernel knows an older landlock; Linux 6.12 knows all of it".to_owned())
        }
        Ok(RulesetStatus::NotEnforced) => Layer::Absent("the kernel has no landlock".to_owned()),
        Err(error) => Layer::Absent(error.to_string()),
    }
}

/// Sets the kernel's own limits.
pub(crate) fn bound_resources(bounds: &Bounds) -> Layer {
    let wanted = [
        ("memory", Resource::RLIMIT_AS, bounds.address_bytes),
        ("data", Resource::RLIMIT_DATA, bounds.data_bytes),
        ("file size", Resource::RLIMIT_FSIZE, 0),
    ];
    let mut missing: Vec<String> = wanted
        .into_iter()
        .filter_map(|(name, resource, bound)| {
            lower(resource, bound).err().map(|errno| format!("{name}: {errno}"))
        })
        .collect();
    if let Err(errno) = bound_computing(bounds.cpu_seconds) {
        missing.push(format!("computing time: {errno}"));
    }
    if missing.is_empty() { Layer::Full } else { Layer::Partial(missing.join(", ")) }
}

/// No new descriptors, threads or processes from here on.
pub(crate) fn start_nothing_more() -> Result<(), String> {
    lower(Resource::RLIMIT_NOFILE, 0).map_err(|errno| format!("descriptors: {errno}"))?;
    lower(Resource::RLIMIT_NPROC, 0).map_err(|errno| format!("processes: {errno}"))
}

/// Kills this process at the first system call that is not on the list, in whichever thread.
pub(crate) fn allow_only_what_is_needed() -> Layer {
    syscalls::install().map_or_else(Layer::Absent, |()| Layer::Full)
}

/// At the soft limit the kernel says why it ends a process (SIGXCPU); at the hard one it does not (SIGKILL).
fn bound_computing(seconds: u64) -> Result<(), Errno> {
    let (_, hard) = getrlimit(Resource::RLIMIT_CPU)?;
    setrlimit(Resource::RLIMIT_CPU, seconds.min(hard), seconds.saturating_add(1).min(hard))
}

/// Lowers a limit; one that is lower already stays.
fn lower(resource: Resource, bound: u64) -> Result<(), Errno> {
    let (_, hard) = getrlimit(resource)?;
    let bound = bound.min(hard);
    setrlimit(resource, bound, bound)
}
