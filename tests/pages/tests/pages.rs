//! What pages promise to their readers: blocks say what they are, and links lead somewhere.

use std::collections::BTreeMap;

use hitless_pages::{Page, pages, root};

/// Languages of blocks. `sh` is pasted by an end-to-end test (tests/e2e/tests/docs.rs), or says `not run: WHY`. `console` is what a command
/// without a cluster prints, compared by a test of the command line; `text` is looked at by nobody.
const LANGUAGES: [&str; 8] = ["sh", "console", "text", "yaml", "json", "http", "haproxy", "mermaid"];

#[test]
fn blocks_say_what_they_are() {
    let mut wrong = Vec::new();
    let mut pasted = 0;
    for page in pages().unwrap() {
        for fence in &page.fences {
            let at = format!("{}:{}", page.path, fence.line);
            if !LANGUAGES.contains(&fence.language()) {
                wrong.push(format!(
                    "{at}: the language is {:?}; use one of {}",
                    fence.language(),
                    LANGUAGES.join(", ")
                ));
            }
            let why = fence.remark().strip_prefix("not run: ");
            match (fence.language(), fence.remark()) {
                ("sh", "") => pasted += 1,
                ("sh", _) if why.is_some_and(|why| why.len() > 10) => {}
                (_, "") => {}
                (_, remark) => wrong.push(format!("{at}: {remark:?} means nothing; of sh write `not run: WHY`")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(pasted >= 3, "{pasted} blocks are pasted");
}

#[test]
fn links_between_pages_lead_somewhere() {
    let pages: BTreeMap<String, Page> = pages().unwrap().into_iter().map(|page| (page.path.clone(), page)).collect();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for page in pages.values() {
        for link in page.links.iter().filter(|link| !link.text.contains("://")) {
            count += 1;
            let (file, anchor) = link.text.split_once('#').unwrap_or((&link.text, ""));
            let path = if file.is_empty() { page.path.clone() } else { beside(&page.path, file) };
            let has_anchor = || pages.get(&path).is_some_and(|page| page.anchors.contains(anchor));
            if !root().join(&path).exists() || !(anchor.is_empty() || has_anchor()) {
                wrong.push(format!("{}:{}: {}", page.path, link.line, link.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 50, "{count} links were found");
}

/// The path that `file` means on this page.
fn beside(page: &str, file: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            ".." => _ = parts.pop(),
            "." => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}
