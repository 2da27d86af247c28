//! Which broken requests are retried, and what is counted for them.

use std::time::Duration;

use hitless_load::{ClassReport, FailureKind, LoadConfig};

use super::script::{Step, scripted};
use super::{one_connection, only_fresh, run_until};

fn counts(class: &ClassReport) -> (u64, u64) {
    (class.failed, class.failed_unretried)
}

#[tokio::test]
async fn a_reset_before_the_answer_on_a_reused_connection_is_retried() {
    for instead_of_answer in [Step::Reset, Step::Close] {
        let server = scripted(vec![vec![Step::Answer, instead_of_answer]]).await;
        let report = run_until(one_connection(server.address), |report| report.keepalive.answered >= 4).await;
        assert_eq!(counts(&report.keepalive), (0, 1), "{instead_of_answer:?}");
        assert_eq!((report.keepalive.opened, report.keepalive.reopened), (2, 0));
        assert_eq!(report.keepalive.answered, report.keepalive.requests);
        assert!(report.failures[0].recovered);
        assert_eq!(report.failures[0].pod.as_deref(), Some("web-0"));
    }
}

#[tokio::test]
async fn a_retry_is_not_retried() {
    let server = scripted(vec![vec![Step::Answer, Step::Reset], vec![Step::Close]]).await;
    let report = run_until(one_connection(server.address), |report| report.keepalive.answered >= 3).await;
    assert_eq!(counts(&report.keepalive), (1, 1));
    assert_eq!(report.keepalive.failed_kinds[&FailureKind::Eof], 1, "the last failure");
    assert_eq!(report.keepalive.failed_unretried_kinds[&FailureKind::Reset], 1, "the first failure");
    assert!(!report.failures[0].recovered);
}

#[tokio::test]
async fn a_connection_that_never_answered_is_not_retried() {
    let server = scripted(vec![vec![Step::Reset]]).await;
    let report = run_until(one_connection(server.address), |report| report.keepalive.answered >= 1).await;
    assert_eq!(counts(&report.keepalive), (1, 1));
    let server = scripted(vec![vec![Step::Reset], vec![Step::Close], vec![Step::CloseHalfway]]).await;
    let report = run_until(only_fresh(server.address), |report| report.fresh.answered >= 1).await;
    assert_eq!(counts(&report.fresh), (3, 3));
    assert_eq!((report.fresh.failed_kinds[&FailureKind::Reset], report.fresh.failed_kinds[&FailureKind::Eof]), (1, 2));
}

#[tokio::test]
async fn half_an_answer_is_a_failure() {
    let server = scripted(vec![vec![Step::Answer, Step::CloseHalfway]]).await;
    let report = run_until(one_connection(server.address), |report| report.keepalive.answered >= 3).await;
    assert_eq!(counts(&report.keepalive), (1, 1));
    assert_eq!(report.keepalive.failed_kinds[&FailureKind::Eof], 1);
}

#[tokio::test]
async fn a_connection_closed_between_requests_is_reopened_without_a_failure() {
    for step in [Step::AnswerThenClose, Step::AnswerAndAnnounceClose] {
        let server = scripted(vec![vec![step]; 2]).await;
        let report = run_until(one_connection(server.address), |report| report.keepalive.answered >= 4).await;
        assert_eq!(counts(&report.keepalive), (0, 0));
        assert_eq!((report.keepalive.reopened, report.keepalive.idle_resets, report.keepalive.opened), (2, 0, 3));
    }
}

#[tokio::test]
async fn a_reset_between_requests_is_counted_apart() {
    let server = scripted(vec![vec![Step::AnswerThenReset]]).await;
    let report = run_until(one_connection(server.address), |report| report.keepalive.answered >= 3).await;
    assert_eq!(counts(&report.keepalive), (0, 0));
    assert_eq!((report.keepalive.reopened, report.keepalive.idle_resets), (0, 1));
}

#[tokio::test]
async fn silence_times_out_and_is_never_retried() {
    let server = scripted(vec![vec![Step::Answer, Step::Silence]]).await;
    let config = LoadConfig { timeout: Duration::from_millis(200), ..one_connection(server.address) };
    let report = run_until(config, |report| report.keepalive.failed >= 1 && report.keepalive.answered >= 2).await;
    let first = &report.failures[0];
    assert_eq!((first.kind, first.recovered), (FailureKind::Timeout, false));
    assert!(first.seen_ms - first.due_ms >= 200, "{first:?}");
    // Requests that were due meanwhile waited in the queue, and their wait is in the figures.
    assert!(report.keepalive.latency.max_ms > 100.0, "{:?}", report.keepalive.latency);
    // On a busy machine the answer before it is seen later than the request after it is due, so the pause may be a little shorter.
    let pause = report.keepalive.longest_pause;
    assert!(pause.at_ms < first.seen_ms && pause.at_ms + pause.length_ms >= first.seen_ms, "{pause:?}, {first:?}");
    let window = report.keepalive.failed_window.unwrap();
    assert!(window.first_ms >= 20 && window.last_ms >= window.first_ms + 200, "{window:?}");
}

#[tokio::test]
async fn another_status_is_a_failure() {
    let server = scripted(vec![vec![Step::Answer, Step::Unavailable]]).await;
    let report = run_until(one_connection(server.address), |report| report.keepalive.answered >= 2).await;
    assert_eq!(counts(&report.keepalive), (1, 1));
    assert_eq!(report.keepalive.failed_kinds[&FailureKind::BadStatus], 1);
}
