//! outline
pub mod ports;
