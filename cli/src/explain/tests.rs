use hitless_pages::is_kept;

use hitless_api::reasons::Topic;

use super::*;

const PAGE: &str = "docs/reasons.md";
const HEAD: &str = "# Reasons

<!-- Made from crates/api/src/reasons by `cargo xtask generate`. Do not edit. -->

What `kubectl hitless explain REASON` prints. How they look in the answers of `status`, `why` and `wait` is in [messages](messages.md).
";

/// What a topic is in the page, and what prints its reasons.
fn heading(topic: Topic) -> (&'static str, &'static str) {
    match topic {
        Topic::Wait => ("What pods wait for", "`status`, `why` and `wait`; metric `hitless_waiting_pods`."),
        Topic::Change => {
            ("Why a change is not made in place", "`status`, and the Events `NativeRollout` and `RolloutRefused`.")
        }
        Topic::Mode => ("How a pod goes", "`why` and `plan`: whether it leaves service, or is held."),
        Topic::Result(_) => ("How operations end", "`status` and `why`; metric `hitless_transitions_ended_total`."),
        Topic::Event => ("Events", "`kubectl get events`, on workloads, pods and rules."),
    }
}

fn page() -> String {
    let mut out = HEAD.to_owned();
    let mut before = "";
    for (topic, reason) in reasons::all() {
        let (title, printed_by) = heading(topic);
        if before != title {
            let outcome = if matches!(topic, Topic::Result(_)) { ("| Outcome ", "| --- ") } else { ("", "") };
            let _ = write!(
                out,
                "\n## {title}\n\n{printed_by}\n\n{}| Reason | What it means | What to do |\n{}| --- | --- | --- |\n",
                outcome.0, outcome.1
            );
            before = title;
        }
        if let Topic::Result(outcome) = topic {
            let _ = write!(out, "| `{outcome:?}` ");
        }
        let _ = writeln!(out, "| `{}` | {} | {} |", reason.name, reason.means, reason.act);
    }
    out
}

#[test]
fn the_page_of_reasons_is_what_the_table_says() {
    let made = page();
    assert!(is_kept(PAGE, &made).unwrap(), "{PAGE} is not what the table says; run: cargo xtask generate");
}

#[test]
fn a_reason_is_found_as_it_is_printed() {
    for word in ["ImageNotFetched", "imagenotfetched", "ImageNotFetched: image web:nope can't be fetched"] {
        let found = find(word).unwrap();
        let of: Vec<&str> = found.iter().map(|each| each.of).collect();
        assert_eq!(of, ["a pod waits", "an Event"], "{word}");
    }
    let failed = find("Failed/NotReplaced").unwrap();
    assert!(failed.iter().any(|each| each.of == "an operation has failed"), "{failed:?}");
    assert!(
        text(&failed).contains("NotReplaced (an operation has failed): the kubelet has not ended"),
        "{}",
        text(&failed)
    );
}

#[test]
fn one_that_is_not_known_is_answered_with_the_nearest() {
    let error = find("ImageNotFetch").unwrap_err();
    assert!(error.to_string().contains("did you mean ImageNotFetched;"), "{error}");
    let error = find("Zzzzzzzzzzzz").unwrap_err().to_string();
    assert!(error.contains("kubectl hitless explain") && !error.contains("did you mean"), "{error}");
    let list = list();
    assert!(list.contains("a pod waits:\n  InProgress\n") && list.contains("an Event:\n"), "{list}");
}
