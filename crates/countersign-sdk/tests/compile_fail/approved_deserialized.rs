//! An approval read from text that the agent sent.

use countersign_sdk::Approved;

fn main() {
    let _: Approved<i32> = serde_json::from_str("{\"input\":1}").unwrap();
}
