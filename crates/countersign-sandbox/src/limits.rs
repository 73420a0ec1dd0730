//! The limits of one script: memory, computing time, source, requests, values.
//!
//! Promise: whatever a script does, it ends within these; the defaults are the documented ones.

use std::time::Duration;

use countersign_core::bounds;
use countersign_kernel::ports::ScriptFault;
use serde::{Deserialize, Serialize};

/// The limits of one script. The host passes them on to the process that runs the script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The most memory of its VM, in bytes.
    pub memory_bytes: usize,
    /// How long it may compute, all turns together. Waiting is free.
    pub cpu: Duration,
    /// The longest source, in bytes.
    pub source_bytes: usize,
    /// The most requests it may make; sleeping counts.
    pub calls: u32,
    /// The largest argument or result, in bytes of JSON.
    pub value_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 * 1024 * 1024,
            cpu: Duration::from_secs(10),
            source_bytes: 256 * 1024,
            calls: bounds::MAX_CALLS,
            value_bytes: bounds::MAX_VALUE_BYTES,
        }
    }
}

impl Limits {
    /// The fault of a script that took more memory than it may.
    pub(crate) fn out_of_memory(&self) -> ScriptFault {
        ScriptFault::OutOfMemory { bound_mib: u64::try_from(self.memory_bytes >> 20).unwrap_or(u64::MAX) }
    }

    /// The fault of a script that computed longer than it may.
    pub(crate) fn cpu_exceeded(&self) -> ScriptFault {
        ScriptFault::CpuLimit { bound_ms: u64::try_from(self.cpu.as_millis()).unwrap_or(u64::MAX) }
    }
}
