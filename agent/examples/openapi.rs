//! Prints the description of the node's endpoint; `cargo xtask generate` writes it to `docs/openapi.json`.

fn main() {
    print!("{}", hitless_agent::http::openapi::document());
}
