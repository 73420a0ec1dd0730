//! An approval made by hand, as a struct literal.

use countersign_sdk::{Approved, Authority};

fn main() {
    let authority = Authority::Rule { rule: "my own".into() };
    let forged = Approved { input: 1, authority };
    let _: &i32 = &forged;
}
