use super::*;
use crate::trial::{Answer, Tried};
use hitless_rollout::beforehand::Helper;

#[test]
fn pods_that_would_be_refused_are_named_with_what_follows_and_what_could_not_be_tried_is_no_ok() {
    let tried = |answer: Answer| {
        let instead = matches!(answer, Answer::Refused(_)).then(|| "the kubelet pulls".to_owned());
        Tried { pod: Helper::Prefetch.label(), image: Some("web:v2".to_owned()), answer, instead }
    };
    let with = |answers: Vec<Answer>| {
        let of_web = answers.into_iter().map(tried).collect();
        let tried = BTreeMap::from([("deployment/web".to_owned(), of_web)]);
        findings(&Facts { helpers: Helpers { namespace: "team".to_owned(), tried, others: 2 }, ..healthy() })
    };
    let all = text(&with(vec![Answer::Accepted]));
    assert!(all.contains("would be accepted for 1 workload of namespace team (2 more were not tried)"), "{all}");
    let warnings = |all: Vec<Finding>| -> Vec<Finding> {
        assert!(all.iter().all(|finding| finding.level != Level::Error), "hitless works all the same");
        all.into_iter().filter(|finding| finding.level == Level::Warning).collect()
    };
    let refused = warnings(with(vec![Answer::Refused("exceeded quota: q".to_owned()), Answer::Accepted]));
    let words = "pod that fetches images (web:v2) of team/deployment/web would be refused: exceeded quota: q";
    assert_eq!((refused.len(), refused[0].what.as_str(), refused[0].why.as_str()), (1, words, "the kubelet pulls"));
    assert!(refused[0].to_do.contains("HITLESS_PREFETCH_LABELS"), "{refused:?}");
    let no = || Answer::NotTried("you may not create pods in team".to_owned());
    let unknown = warnings(with(vec![no(), no(), Answer::Accepted]));
    assert_eq!((unknown.len(), unknown[0].why.as_str()), (1, "not tried: you may not create pods in team"));
    assert!(warnings(findings(&healthy())).is_empty(), "nothing has opted in");
}
