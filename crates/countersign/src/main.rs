//! outline
fn main() {}
