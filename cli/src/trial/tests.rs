use std::cell::Cell;

use super::*;
use crate::scene::{idle, pod, with_annotation};

fn denied(message: &str) -> WriteError {
    WriteError::Denied { message: message.to_owned() }
}

/// What is said of the first pod that fetches an image of Deployment `web`, if the API server says this to each attempt.
async fn said(answers: &[Result<(), WriteError>]) -> (Tried, usize) {
    let snapshot = with_annotation(idle(&[pod("a", "web:v2")]), "hitless.dev/companion", "Auto");
    let target = "deployment/web".parse().unwrap();
    let found = snapshot.find(&target).unwrap();
    let workload = found.workload.unwrap();
    let all = trials(&snapshot.cluster, workload, &found.pods);
    assert_eq!(all.len(), 2, "one that fetches, and a companion");
    let count = Cell::new(0);
    let answer = ask("team", &all[0], async |_| {
        let answer = answers[count.get()].clone();
        count.set(count.get() + 1);
        answer
    })
    .await;
    (Tried::of(&all[0], answer, workload), count.get())
}

#[tokio::test]
async fn the_second_attempt_has_the_containers_requests_and_counts() {
    let quota = denied("pods \"x\" is forbidden: failed quota: q: must specify requests.cpu");
    let (tried, count) = said(&[Err(quota.clone()), Ok(())]).await;
    assert_eq!((tried.answer.clone(), count), (Answer::Accepted, 2));
    assert_eq!(tried.text(), "pod that fetches images (web:v2): would be accepted, as far as a dry run tells");
    let (tried, _) = said(&[Err(quota.clone()), Err(quota)]).await;
    let text = tried.text();
    assert!(
        text.contains("would be refused: pods \"x\" is forbidden: failed quota") && text.contains("the kubelet pulls"),
        "{text}"
    );
    let (tried, count) = said(&[Ok(())]).await;
    assert_eq!((tried.answer, count), (Answer::Accepted, 1));
}

#[tokio::test]
async fn what_could_not_be_tried_is_said_and_is_no_refusal() {
    let no_right =
        r#"pods is forbidden: User "jane" cannot create resource "pods" in API group "" in the namespace "team""#;
    let (tried, count) = said(&[Err(denied(no_right))]).await;
    assert_eq!(
        (tried.text().as_str(), count),
        ("pod that fetches images (web:v2): not tried: you may not create pods in team", 1)
    );
    let webhook = WriteError::Invalid { message: r#"admission webhook "w" does not support dry run"#.to_owned() };
    let (tried, _) = said(&[Err(webhook)]).await;
    assert!(
        !tried.is_refused() && tried.text().contains("\"w\" does not support dry run; whether"),
        "{}",
        tried.text()
    );
    let away = WriteError::Transient { message: "timeout".to_owned(), retry_after: None };
    assert_eq!(said(&[Err(away)]).await.0.answer, Answer::NotTried("timeout".to_owned()));
}

#[tokio::test]
async fn a_refusal_is_in_the_api_servers_words_with_what_follows() {
    let policy = r#"violates PodSecurity "restricted:latest": runAsNonRoot != true"#;
    let (tried, _) = said(&[Err(denied(policy)), Err(denied(policy))]).await;
    assert!(tried.is_refused());
    assert!(tried.text().contains(policy) && tried.text().contains("go natively"), "{}", tried.text());
    let json = serde_json::to_value(&tried).unwrap();
    assert_eq!((&json["answer"], &json["words"]), (&"refused".into(), &policy.into()));
}
