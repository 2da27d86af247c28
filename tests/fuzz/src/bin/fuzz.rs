//! The targets with libFuzzer; `cargo xtask fuzz` builds and runs it. `HITLESS_FUZZ_TARGET` says which target, `HITLESS_FUZZ_SEEDS` and
//! `HITLESS_FUZZ_DICTIONARY` where its seeds and words go, before libFuzzer reads them. All else is libFuzzer's own command line.
//!
//! One program for all targets: linking takes longer than anything else.

#![no_main]
#![allow(clippy::expect_used, reason = "without its variables there is nothing to do")]

use std::env;
use std::path::PathBuf;
use std::sync::OnceLock;

use hitless_fuzz::Target;
use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<Target> = OnceLock::new();

fn chosen() -> Target {
    let name = env::var("HITLESS_FUZZ_TARGET").expect("HITLESS_FUZZ_TARGET names a target");
    Target::named(&name).expect("HITLESS_FUZZ_TARGET names a target that is there")
}

fn prepare() {
    let path = |variable: &str| env::var_os(variable).map(PathBuf::from);
    if let (Some(seeds), Some(dictionary)) = (path("HITLESS_FUZZ_SEEDS"), path("HITLESS_FUZZ_DICTIONARY")) {
        TARGET.get_or_init(chosen).prepare(&seeds, &dictionary).expect("seeds and words are written");
    }
}

fuzz_target!(init: prepare(), |data: &[u8]| {
    (TARGET.get_or_init(chosen).run)(data);
});
