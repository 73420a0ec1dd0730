//! One approval, kept for a second use.

use countersign_sdk::Approved;

fn twice(approved: Approved<i32>) -> (Approved<i32>, Approved<i32>) {
    (approved.clone(), approved)
}

fn main() {
    let _ = twice;
}
