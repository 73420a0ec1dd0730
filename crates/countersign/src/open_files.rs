//! How many open files this process may have.
//!
//! A login shell and systemd give a program 1,024 at first and let it ask for more. A server takes 4,096 connections: with
//! 1,024 open files, a few agents would have all of them, and people could not get in.

/// Raises the bound on open files as far as the system lets this process; gives the bound, or the greatest number where the system
/// has none. Where it cannot be raised, the bound stays as it was.
#[cfg(unix)]
pub(crate) fn raise_bound() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before }) {
        tracing::warn!(%error, "the bound on open files could not be raised");
    }
    let bound = getrlimit(Resource::Nofile).current;
    bound.and_then(|bound| usize::try_from(bound).ok()).unwrap_or(usize::MAX)
}

/// Other systems have no such bound.
#[cfg(not(unix))]
pub(crate) fn raise_bound() -> usize {
    usize::MAX
}
