//! Sources behind a real gateway: what is accepted can be called, gated and journaled; everything else cannot.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected stops there")]

mod openapi;
mod shop;
