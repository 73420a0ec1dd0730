//! An approval made through its constructor, which is not for tool authors.

use countersign_sdk::{Approved, Authority};

fn main() {
    let _ = Approved::new(1, Authority::Rule { rule: "my own".into() });
}
