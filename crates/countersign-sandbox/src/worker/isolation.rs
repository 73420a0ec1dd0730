//! The rights that a child gives up before it reads anything: its parent's descriptors, files, network, other processes, and every
//! system call that a script's engine does not need.
//!
//! Promise: each layer reports what it achieved. A layer that this system lacks is named, never passed over: the host runs
//! no script where one is missing, unless the operator allows weaker isolation, and `doctor` shows it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::Limits;

#[cfg(not(target_os = "linux"))]
use crate::worker::elsewhere as system;
#[cfg(target_os = "linux")]
use crate::worker::linux as system;

/// The stack of the thread that a script runs on.
pub(crate) const SCRIPT_STACK_BYTES: usize = 16 * 1024 * 1024;

/// The address space of a child beyond its script's memory: the program itself, its allocator's reservations, its stacks.
pub(crate) const ADDRESS_HEADROOM_BYTES: usize = 512 * 1024 * 1024;

/// The data of a child beyond its script's memory: a parsed source, frames, a turn's requests, its stacks.
pub(crate) const DATA_HEADROOM_BYTES: usize = 80 * 1024 * 1024;

/// How isolated a child is, layer by layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// It has no descriptors but its three pipes.
    pub descriptors: Layer,
    /// It dies with its parent.
    pub lifetime: Layer,
    /// Its memory can be neither dumped nor read by others of its user.
    pub memory: Layer,
    /// The kernel bounds its memory, computing time, descriptors, files and processes.
    pub resources: Layer,
    /// It has no right to any file, port or abstract socket (landlock).
    pub landlock: Layer,
    /// Any system call that it does not need ends it (seccomp).
    pub seccomp: Layer,
}

/// How far a layer of isolation holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Layer {
    /// As meant.
    Full,
    /// In part; what is missing, in words.
    Partial(String),
    /// Not at all; why, in words.
    Absent(String),
}

impl Isolation {
    /// The layers with their names, outermost last.
    pub fn layers(&self) -> [(&'static str, &Layer); 6] {
        [
            ("descriptors", &self.descriptors),
            ("lifetime", &self.lifetime),
            ("memory", &self.memory),
            ("resources", &self.resources),
            ("landlock", &self.landlock),
            ("seccomp", &self.seccomp),
        ]
    }

    /// True only where every layer is as meant.
    pub fn is_full(&self) -> bool {
        self.layers().iter().all(|(_, layer)| **layer == Layer::Full)
    }

    /// The layers without which no script should run here, each with the reason. An older landlock, which knows files but
    /// not yet ports and signals, is enough, and so are descriptors closed up to a bound: seccomp refuses the rest of both.
    pub fn missing(&self) -> Vec<(&'static str, &Layer)> {
        let enough = |name: &str, layer: &Layer| match layer {
            Layer::Full => true,
            Layer::Partial(_) => matches!(name, "landlock" | "descriptors"),
            Layer::Absent(_) => false,
        };
        self.layers().into_iter().filter(|(name, layer)| !enough(name, layer)).collect()
    }
}

/// How isolated a child must be before it is given a script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RequiredIsolation {
    /// Nothing is [missing](Isolation::missing); where something is, no script runs.
    #[default]
    Strict,
    /// However isolated it is: the operator knows that this system offers less, and runs scripts all the same.
    AllowWeaker,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("full"),
            Self::Partial(missing) => write!(f, "partial: {missing}"),
            Self::Absent(reason) => write!(f, "absent: {reason}"),
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (name, layer)) in self.layers().into_iter().enumerate() {
            let separator = if n == 0 { "" } else { "; " };
            write!(f, "{separator}{name} {layer}")?;
        }
        Ok(())
    }
}

/// Applies every layer that still allows a thread to be started, irrevocably. Tests leave layers out to see what the others
/// stop.
pub(crate) fn isolate(limits: &Limits, left_out: Option<&str>) -> Isolation {
    let unless = |name: &str, layer: &dyn Fn() -> Layer| match left_out {
        Some(left_out) if left_out.contains(name) => Layer::Absent("left out".to_owned()),
        _ => layer(),
    };
    Isolation {
        descriptors: unless("descriptors", &system::close_inherited),
        memory: unless("memory", &system::hide_memory),
        lifetime: unless("lifetime", &system::die_with_parent),
        landlock: unless("landlock", &system::give_up_files_and_network),
        resources: unless("resources", &|| system::bound_resources(&Bounds::of(limits))),
        seccomp: Layer::Absent("not reached".to_owned()),
    }
}

/// Applies the remaining layers, to every thread of this process.
pub(crate) fn forbid_the_rest(isolation: &mut Isolation) {
    if let Err(missing) = system::start_nothing_more() {
        isolation.resources = match std::mem::replace(&mut isolation.resources, Layer::Full) {
            Layer::Full => Layer::Partial(missing),
            Layer::Partial(more) | Layer::Absent(more) => Layer::Partial(format!("{more}; {missing}")),
        };
    }
    isolation.seccomp = system::allow_only_what_is_needed();
}

/// The limits that the kernel enforces if the engine's own fail.
pub(crate) struct Bounds {
    pub(crate) address_bytes: u64,
    pub(crate) data_bytes: u64,
    pub(crate) cpu_seconds: u64,
}

impl Bounds {
    fn of(limits: &Limits) -> Self {
        let bytes =
            |headroom: usize| u64::try_from(limits.memory_bytes.saturating_add(headroom)).unwrap_or(u64::MAX);
        Self {
            address_bytes: bytes(ADDRESS_HEADROOM_BYTES),
            data_bytes: bytes(DATA_HEADROOM_BYTES),
            // Whole seconds are all the kernel takes: the limit rounded up, and one more, so that it is the last to act.
            cpu_seconds: limits.cpu.as_secs().saturating_add(1 + u64::from(limits.cpu.subsec_nanos() > 0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_kernels_bounds_lie_beyond_the_engines() {
        for (cpu, seconds) in [(0, 1), (1, 2), (999, 2), (1_000, 2), (1_001, 3), (10_000, 11)] {
            let limits = Limits { cpu: Duration::from_millis(cpu), ..Limits::default() };
            let bounds = Bounds::of(&limits);
            assert_eq!(bounds.cpu_seconds, seconds, "{cpu} ms");
            assert!(bounds.data_bytes > u64::try_from(limits.memory_bytes + SCRIPT_STACK_BYTES).unwrap());
            assert!(bounds.address_bytes > bounds.data_bytes);
        }
    }

    fn full() -> Isolation {
        let layer = || Layer::Full;
        Isolation {
            descriptors: layer(),
            lifetime: layer(),
            memory: layer(),
            resources: layer(),
            landlock: layer(),
            seccomp: layer(),
        }
    }

    #[test]
    fn a_missing_layer_is_named() {
        let isolation = Isolation { landlock: Layer::Absent("no kernel".to_owned()), ..full() };
        assert!(!isolation.is_full());
        assert!(isolation.to_string().contains("landlock absent: no kernel; seccomp full"), "{isolation}");
    }

    #[test]
    fn nothing_may_be_absent_and_in_part_is_enough_only_where_seccomp_covers_the_rest() {
        let names = |isolation: &Isolation| -> Vec<&str> {
            isolation.missing().into_iter().map(|(name, _)| name).collect()
        };
        assert!(full().missing().is_empty());
        let set = |name: &str, layer: Layer| {
            let mut isolation = full();
            match name {
                "descriptors" => isolation.descriptors = layer,
                "lifetime" => isolation.lifetime = layer,
                "memory" => isolation.memory = layer,
                "resources" => isolation.resources = layer,
                "landlock" => isolation.landlock = layer,
                _ => isolation.seccomp = layer,
            }
            isolation
        };
        for (name, _) in full().layers() {
            assert_eq!(names(&set(name, Layer::Absent("why".to_owned()))), [name]);
            let in_part = names(&set(name, Layer::Partial("why".to_owned())));
            assert_eq!(in_part.is_empty(), matches!(name, "landlock" | "descriptors"), "{name}");
        }
    }
}
