//! One approval, kept for a second use.

use countersign_sdk::Approved;

struct Input;

fn twice(approved: Approved<Input>) -> (Approved<Input>, Approved<Input>) {
    (approved.clone(), approved)
}

fn main() {
    let _ = twice;
}
