//! An authority is plain data and an approval can be read; only making one is for the kernel.

use countersign_sdk::{Approved, Authority};

fn read(approved: Approved<i32>) -> (Authority, i32) {
    let _: &i32 = &approved;
    (approved.authority().clone(), approved.into_inner())
}

fn main() {
    let _ = Authority::Rule { rule: "my own".into() };
    let _ = read;
}
