//! controller
fn main() {}
