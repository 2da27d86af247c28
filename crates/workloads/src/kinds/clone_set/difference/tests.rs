//! Upstream's own cases (facts/openkruise.md §3.8).

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::super::rounding;
use super::*;

fn value(text: &str) -> IntOrString {
    text.parse().map_or_else(|_| IntOrString::String(text.to_owned()), IntOrString::Int)
}

/// `1N+d 4O-`: a count, New or Old, available or not, `d` to be deleted, `x` waiting for its hook, `u` waiting for its update.
fn pods(text: &str, flags: &str) -> Vec<Counted> {
    let mut all = Vec::new();
    for group in text.split_whitespace().filter(|group| *group != "-") {
        let side = group.find(['N', 'O']).unwrap();
        let (number, rest) = group.split_at(side);
        let marks = &rest[2..];
        let waits_for_update = marks == "u";
        let counts_as_new = waits_for_update && flags.contains("PUasU");
        let pod = Counted {
            is_new: rest.starts_with('N') || counts_as_new,
            is_available: &rest[1..2] == "+" && !waits_for_update,
            is_to_delete: marks.contains('d') && marks != "Updating",
            is_preparing_delete: marks.contains('x'),
        };
        all.extend(std::iter::repeat_n(pod, number.parse().unwrap()));
    }
    all
}

fn expected(text: &str) -> Difference {
    let mut found = Difference::default();
    for field in text.split_whitespace().filter(|field| field.contains('=')) {
        let (name, number) = field.split_once('=').unwrap();
        let number: i64 = number.parse().unwrap();
        match name {
            "up" => found.to_make = count(number),
            "upOld" => found.to_make_old = count(number),
            "upLim" => found.to_make_now = count(number),
            "dn" => found.to_remove = count(number),
            "dnOld" => found.to_remove_old = count(number),
            "delRdy" => found.removable_available = count(number),
            "sg" => found.surge = count(number),
            "sgOld" => found.surge_old = count(number),
            "upd" => found.to_update = number,
            "updMU" => found.most_unavailable = number,
            other => panic!("{other}"),
        }
    }
    found
}

fn check(line: &str) {
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let [number, replicas, partition, unavailable, surge, flags, pods_text, wanted] = columns[..] else {
        panic!("{line}")
    };
    let replicas: usize = replicas.parse().unwrap();
    let max_surge = rounding::max_surge(replicas, Some(&value(surge)), flags.contains("paused")).unwrap();
    let scale = flags.split(',').find_map(|flag| flag.strip_prefix("scaleMU="));
    let is_same = flags.contains("cur==upd");
    let wants = Wanted {
        replicas,
        partition: rounding::partition(replicas, Some(&value(partition))).unwrap(),
        max_surge,
        max_unavailable: rounding::max_unavailable(replicas, Some(&value(unavailable)), max_surge).unwrap(),
        scale_max_unavailable: scale.map(|most| most.parse().unwrap()),
        excludes_preparing_delete: flags.contains("exclPD"),
        goes_back: !is_same && !flags.contains("rollback gate off"),
    };
    assert_eq!(difference(&wants, &pods(pods_text, flags)), expected(wanted), "case {number}: {line}");
}

#[test]
fn every_case_of_upstream_gives_its_numbers() {
    let lines = CASES.lines().map(str::trim).filter(|line| !line.is_empty());
    assert_eq!(lines.clone().count(), 54);
    lines.for_each(check);
}

/// Reports 4 and 6 of users: the last batch makes no pod too many, and a paused one none at all.
#[test]
fn no_more_surge_pods_than_are_still_to_be_updated() {
    let wanted = Wanted {
        replicas: 8,
        partition: 6,
        max_surge: 4,
        max_unavailable: 0,
        scale_max_unavailable: None,
        excludes_preparing_delete: false,
        goes_back: false,
    };
    let found = difference(&wanted, &pods("8O+", ""));
    assert_eq!((found.surge, found.to_make, found.to_update), (2, 2, 2));
    let paused = difference(&Wanted { max_surge: 0, ..wanted }, &pods("8O+", ""));
    assert_eq!((paused.surge, paused.to_make), (0, 0));
}

const CASES: &str = "
    1 | 0 | 0 | 1 | 0 |  | - | all 0
    2 | 5 | 0 | 1 | 0 |  | - | up=5 upLim=5
    4 | 5 | 0 | 1 | 0 |  | 1N+d 4N+ | delRdy=1
    5 | 5 | 0 | 1 | 0 |  | 4N+ | up=1 upLim=1
    7 | 5 | 0 | 1 | 0 |  | 2N+d 3N+ | delRdy=1
    8 | 5 | 0 | 1 | 0 |  | 1N+d 3N+ | up=1 upLim=1
    10 | 5 | 0 | 1 | 0 |  | 1N+d 4N+ | delRdy=1
    11 | 5 | 0 | 1 | 0 |  | 4N+ | up=1 upLim=1
    13 | 4 | 0 | 1 | 0 |  | 2N-d 3N+ | delRdy=2
    14 | 4 | 0 | 1 | 0 |  | 3N+ | up=1 upLim=1
    16 | 5 | 3 | 1 | 0 |  | 5O+ | upd=2 updMU=1
    17 | 5 | 3 | 1 | 0 |  | 1N+ 4O+ | upd=1 updMU=1
    19 | 5 | 4 | 2 | 0 |  | 4N+ 1O+ | upd=-3 updMU=2
    20 | 5 | 4 | 2 | 0 |  | 2N+ 3O+ | upd=-1 updMU=2
    22 | 5 | 0 | 0 | 1 |  | 1N+d 4N+ | up=1 sg=1 upLim=1
    23 | 5 | 0 | 0 | 1 |  | 1N+d 4N+ 1N- | sg=1
    25 | 5 | 0 | 0 | 1 |  | 5N+ | all 0
    26 | 5 | 3 | 1 | 1 |  | 5O+ | up=1 sg=1 upd=2 updMU=1 upLim=1
    28 | 5 | 3 | 1 | 1 |  | 4O+ 1N-Updating 1N- | dn=1 dnOld=1
    29 | 5 | 3 | 1 | 1 |  | 4O+ 1N+ 1N- | dn=1 dnOld=1 delRdy=1
    31 | 5 | 3 | 1 | 1 |  | 5O+ 1N- | sg=1 upd=1 updMU=2
    32 | 5 | 3 | 1 | 1 |  | 4O+ 1O+d 1N- | sg=1 sgOld=1 delRdy=1 upd=1 updMU=2
    34 | 5 | 3 | 1 | 1 |  | 4O+ 2N- | dn=1 dnOld=1
    35 | 5 | 3 | 1 | 1 |  | 4O+ 1N+ 1N- | dn=1 dnOld=1 delRdy=1
    37 | 5 | 99% | 3 | 2 |  | 5O+ | up=1 sg=1 upd=1 updMU=3 upLim=1
    38 | 5 | 99% | 3 | 2 |  | 5O+ 1N- | dn=1 dnOld=1 delRdy=3
    40 | 5 | 99% | 40% | 30% |  | 5O+ | up=1 sg=1 upd=1 updMU=2 upLim=1
    41 | 5 | 99% | 40% | 30% |  | 5O+ 1N- | dn=1 dnOld=1 delRdy=2
    43 | 5 | 99% | 30% | 30% |  | 5O+ | up=1 sg=1 upd=1 updMU=1 upLim=1
    44 | 5 | 99% | 30% | 30% |  | 5O+ 1N- | dn=1 dnOld=1 delRdy=1
    46 | 5 | 0 | 1 | 0 | cur==upd | 5N+ | all 0
    47 | 5 | 3 | 1 | 0 | cur==upd | 5N+ | all 0
    49 | 5 | 1 | 1 | 0 | cur==upd | 3O+ 2N+ | upd=2 updMU=1
    50 | 5 | 1 | 2 | 0 | cur==upd | 2O+ 2N+ | up=1 upd=1 updMU=1 upLim=1
    52 | 5 | 4 | 1 | 0 | rollback gate off | 1O+ 4N+ | all 0
    53 | 5 | 0 | 1 | 0 | scaleMU=2 | - | up=5 upLim=2
    55 | 6 | 0 | 1 | 0 | scaleMU=2 | 1N+ 2N- | up=3
    56 | 3 | 0 | 1 | 0 |  | 2N+ 1N+d | delRdy=1
    58 | 3 | 0 | 1 | 0 |  | 2N+ | up=1 upLim=1
    59 | 3 | 0 | 1 | 0 |  | 2N+ 1N- | all 0
    61 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N+dx | up=1 upLim=1
    62 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N+dx 1N- | all 0
    64 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N+d | delRdy=1
    65 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N+dx | up=1 upLim=1
    67 | 3 | 0 | 1 | 0 | exclPD | 3N+ 1N- | dn=1 delRdy=1
    68 | 3 | 0 | 1 | 0 | exclPD | 3N+ | all 0
    70 | 2 | 0 | 1 | 0 | exclPD | 2N+ 1N+d | delRdy=2
    71 | 2 | 0 | 1 | 0 | exclPD | 2N+ 1N+dx | all 0
    73 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N+dx 1N- | all 0
    74 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N- | all 0
    76 | 4 | 2 | 1 | 0 | exclPD,PUasU | 1O+u 2O+ | up=1 upLim=1
    77 | 5 | 0 | 0 | 3 | paused | 3O+ | up=2 upLim=2 upd=3 updMU=-2
    79 | 5 | 0 | 0 | 3 | paused | 5O+ 3N- | dn=3 dnOld=5 upd=2 updMU=3
    80 | 5 | 2 | 0 | 3 | paused | 5O+ 3N- | dn=3 dnOld=3
";
