//! REST over real sockets: who gets in, what is promised to clients, and what none of them can bend.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that meets the unexpected stops there"
)]

mod abuse;
mod answer;
mod audit;
mod configuration;
mod contract;
mod crowds;
mod deciders;
mod document;
mod events;
mod figures;
mod house;
mod limits;
mod lists;
mod login;
mod places;
mod problems;
mod reading;
mod roles;
mod secrets;
mod seen;
mod sessions;
mod shared_feed;
mod shown;
mod sources;
mod stopping;
mod storage;
mod stream;
mod waiting;
