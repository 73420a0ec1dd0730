//! The rules that always hold, each from outside: who wins, what is used once, what survives, who may.

mod authority;
mod cancelling;
mod closing;
mod deciders;
mod doubt;
mod grants;
mod hanging_up;
mod held_store;
mod keys;
mod parking;
mod secrets;
mod storage;
