//! What pages promise to their readers: blocks say what they are, and links lead somewhere.

use std::collections::BTreeMap;
use std::fs;

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

/// The page that lists all pages.
const INDEX: &str = "docs/README.md";
/// Its parts, in their order.
const PARTS: [&str; 4] = ["Tutorial", "How-to", "Reference", "Explanation"];

/// Which pages of documentation each part links to.
fn parts(index: &str) -> Vec<(String, Vec<String>)> {
    let parts = index.split("\n## ").skip(1).map(|part| {
        let (heading, text) = part.split_once('\n').unwrap_or((part, ""));
        let links = Page::new(INDEX.to_owned(), text).links.into_iter().map(|link| beside(INDEX, &link.text));
        (heading.to_owned(), links.filter(|path| path.starts_with("docs/")).collect())
    });
    parts.collect()
}

#[test]
fn each_page_of_the_documentation_is_in_the_index_once() {
    let index = fs::read_to_string(root().join(INDEX)).unwrap();
    let parts = parts(&index);
    assert_eq!(parts.iter().map(|(heading, _)| heading.as_str()).collect::<Vec<_>>(), PARTS);
    let mut listed: BTreeMap<&str, usize> = BTreeMap::new();
    for link in parts.iter().flat_map(|(_, links)| links) {
        *listed.entry(link).or_default() += 1;
    }
    let pages = pages().unwrap();
    let is_listed = |path: &str| {
        let name = path.strip_prefix("docs/").unwrap_or_default();
        // Decisions and seams have indices of their own, and alerts name their runbooks.
        let has_own_index = name.contains('/') && !["decisions/README.md", "seams/README.md"].contains(&name);
        !name.is_empty() && path != INDEX && !has_own_index
    };
    let expected: Vec<&str> = pages.iter().map(|page| page.path.as_str()).filter(|path| is_listed(path)).collect();
    let wrong: Vec<&&str> = expected.iter().filter(|path| listed.get(**path) != Some(&1)).collect();
    assert!(wrong.is_empty(), "not exactly once in {INDEX}: {wrong:?}");
    assert!(expected.len() > 20, "{} pages were found", expected.len());
}

#[test]
fn a_page_that_is_missing_in_the_index_or_there_twice_is_found() {
    let index =
        "# A\n\n[no part](x.md)\n\n## Tutorial\n\n[a](a.md), [out](../b.md)\n\n## How-to\n\n[a](a.md) [c](c/d.md)\n";
    let found = parts(index);
    assert_eq!(found[0], ("Tutorial".to_owned(), vec!["docs/a.md".to_owned()]));
    assert_eq!(found[1], ("How-to".to_owned(), vec!["docs/a.md".to_owned(), "docs/c/d.md".to_owned()]));
}

/// Who opens the repository reads it to its end.
#[test]
fn the_first_page_is_short() {
    let lines = fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= 100, "README.md has {lines} lines; what is more belongs on a page under docs");
}

/// What people copy from the page is what `lint` looks at in the file.
#[test]
fn yaml_of_the_page_of_limits_is_from_its_file() {
    let examples = fs::read_to_string(root().join("docs/examples/budgets.yaml")).unwrap();
    let pages = pages().unwrap();
    let page = pages.iter().find(|page| page.path == "docs/limit-rollouts.md").unwrap();
    let copied: Vec<&str> =
        page.fences.iter().filter(|fence| fence.language() == "yaml").map(|fence| fence.text.as_str()).collect();
    assert!(!copied.is_empty() && copied.iter().all(|text| examples.contains(text)), "{copied:#?}");
}
