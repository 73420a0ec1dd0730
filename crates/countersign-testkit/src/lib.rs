//! For tests only: a world to put a gateway in, stores with faults, and drivers that crash it everywhere.
//!
//! State that survives a crash lives outside the gateway: the disk ([`memory_store`], or a real one), the [`clock`], the [`ledger`]
//! of effects, and the [`history`] of what was acknowledged. [`invariants`] holds them against the rules R1–R9 and R11.

pub mod chance;
pub mod clock;
pub mod conformance;
pub mod crash;
pub mod faulty_store;
pub mod history;
pub mod invariants;
pub mod lab;
pub mod ledger;
pub mod line_scripts;
pub mod memory_store;
pub mod simulation;
pub mod sources;
pub mod world;
