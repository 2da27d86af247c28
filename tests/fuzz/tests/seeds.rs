//! The targets are all known, and take their seeds: what keeps them from rotting between two rounds of fuzzing.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use hitless_fuzz::{TARGETS, Target};

#[test]
fn each_file_is_a_target_and_each_target_a_file() {
    let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/targets")).unwrap();
    let paths = files.map(|file| file.unwrap().path()).filter(|path| path.is_file());
    let files: BTreeSet<String> = paths.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let named: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(named, files);
    assert!(Target::named("nothing").is_none());
}

#[test]
fn each_target_takes_its_seeds_and_what_is_near_them() {
    let broken = |target: &Target, input: &[u8]| {
        let run = target.run;
        catch_unwind(|| run(input)).is_err()
    };
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(seeds.len() > 1, "{}: few seeds", target.name);
        for seed in seeds {
            assert!(!broken(&target, &seed), "{}: {:?}", target.name, String::from_utf8_lossy(&seed));
            // Cut off, and with one bit changed: at a hundred places each.
            for place in (0..seed.len()).step_by(seed.len() / 100 + 1) {
                assert!(!broken(&target, &seed[..place]), "{}: cut off after {place} bytes", target.name);
                let mut changed = seed.clone();
                changed[place] ^= 1 << (place % 8);
                assert!(!broken(&target, &changed), "{}: {:?}", target.name, String::from_utf8_lossy(&changed));
            }
        }
    }
}

#[test]
fn seeds_and_words_are_written_and_seeds_of_before_go() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prepare");
    let (seeds, words) = (directory.join("seeds"), directory.join("words"));
    fs::create_dir_all(&seeds).unwrap();
    fs::write(seeds.join("old"), "").unwrap();
    let target = Target::named("haproxy").unwrap();
    target.prepare(&seeds, &words).unwrap();
    assert_eq!(fs::read_dir(&seeds).unwrap().count(), (target.seeds)().len());
    assert_eq!(fs::read_to_string(&words).unwrap().lines().count(), 1 + target.words.len());
}
