//! The execution state machine, held to its promises: tables, goldens, whole journals, rules, properties.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that meets the unexpected stops there")]

mod answers;
mod case;
mod clock;
mod commits;
mod doubt;
mod ends;
mod golden;
mod journals;
mod ledger;
mod offers;
mod properties;
mod rules;
mod sample;
mod scripts;
mod starts;
mod stored;
mod table;
