//! One page.

use std::collections::{BTreeMap, BTreeSet};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::command::{self, Command};

/// A block of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Line of its beginning, from 1.
    pub line: usize,
    /// What stands behind the fence: the language, and maybe more.
    pub info: String,
    /// What stands in it.
    pub text: String,
}

impl Fence {
    /// The language.
    #[must_use]
    pub fn language(&self) -> &str {
        self.info.split_whitespace().next().unwrap_or_default()
    }

    /// What is typed in a console and what is printed then.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        for line in self.text.lines() {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(typed), _) => steps.push(Step { typed: typed.to_owned(), printed: String::new() }),
                (None, Some(step)) => step.printed.extend([line, "\n"]),
                (None, None) => {}
            }
        }
        steps
    }

    /// What stands behind the language.
    #[must_use]
    pub fn remark(&self) -> &str {
        self.info.split_once(char::is_whitespace).map_or("", |(_, remark)| remark.trim())
    }
}

/// A command of a console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is typed.
    pub typed: String,
    /// What is printed; `…` stands for anything within a line, alone for any lines.
    pub printed: String,
}

impl Step {
    /// The words behind the program, if this calls it.
    #[must_use]
    pub fn words(&self, program: &str) -> Option<Vec<String>> {
        command::all(&self.typed, program).pop()
    }

    /// Whether a program that prints this does as it is shown here.
    #[must_use]
    pub fn shows(&self, printed: &str) -> bool {
        let wanted: Vec<&str> = self.printed.lines().map(str::trim_end).collect();
        let found: Vec<&str> = printed.lines().map(str::trim_end).collect();
        are_alike(&wanted, &found)
    }
}

fn are_alike(wanted: &[&str], found: &[&str]) -> bool {
    match (wanted.split_first(), found.split_first()) {
        (None, None) => true,
        (Some((&"…", rest)), None) => are_alike(rest, found),
        (Some((&"…", rest)), Some((_, fewer))) => are_alike(rest, found) || are_alike(wanted, fewer),
        (Some((line, rest)), Some((first, fewer))) => is_alike(line, first) && are_alike(rest, fewer),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

fn is_alike(wanted: &str, found: &str) -> bool {
    let Some((begin, end)) = wanted.split_once('…') else { return wanted == found };
    let Some(rest) = found.strip_prefix(begin) else { return false };
    let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.any(|at| is_alike(end, &rest[at..]))
}

/// Code within a line, or the target of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Its line, from 1.
    pub line: usize,
    /// What it is.
    pub text: String,
}

/// A page.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// From the root of the repository.
    pub path: String,
    /// Blocks of code.
    pub fences: Vec<Fence>,
    /// Code within lines.
    pub code: Vec<Code>,
    /// Targets of links.
    pub links: Vec<Code>,
    /// Names of its headings in links.
    pub anchors: BTreeSet<String>,
    /// Code in the first column of tables, by the heading before.
    pub first_cells: BTreeMap<String, Vec<Code>>,
}

/// What is being read.
#[derive(Default)]
struct Reader {
    page: Page,
    fence: Option<Fence>,
    heading: Option<String>,
    last_heading: String,
    cell: usize,
    in_table: bool,
}

impl Page {
    /// Reads it.
    #[must_use]
    pub fn new(path: String, text: &str) -> Self {
        let starts: Vec<usize> = [0].into_iter().chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let line = |offset: usize| starts.partition_point(|start| *start <= offset);
        let mut reader = Reader::default();
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            reader.take(event, line(range.start));
        }
        Self { path, ..reader.page }
    }

    /// All that is named of this program: in blocks of shell and consoles as whole commands, in lines also in part.
    #[must_use]
    pub fn commands(&self, program: &str) -> Vec<Command> {
        let blocks =
            self.fences.iter().filter(|fence| matches!(fence.language(), "sh" | "console")).flat_map(|fence| {
                let is_console = fence.language() == "console";
                let lines = fence.text.lines().enumerate();
                let typed = lines.filter_map(move |(number, line)| {
                    let line = if is_console { line.strip_prefix("$ ")? } else { line };
                    Some((fence.line + 1 + number, line, true))
                });
                typed.collect::<Vec<_>>()
            });
        let within = self.code.iter().map(|code| (code.line, code.text.as_str(), false));
        let found = blocks.chain(within).flat_map(|(line, text, whole)| {
            command::all(text, program).into_iter().map(move |words| Command {
                at: format!("{}:{line}", self.path),
                words,
                whole,
            })
        });
        found.collect()
    }
}

impl Reader {
    fn take(&mut self, event: Event<'_>, line: usize) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let info = match kind {
                    CodeBlockKind::Fenced(info) => info.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.fence = Some(Fence { line, info, text: String::new() });
            }
            Event::End(TagEnd::CodeBlock) => self.page.fences.extend(self.fence.take()),
            Event::Start(Tag::Heading { .. }) => self.heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                self.last_heading = self.heading.take().unwrap_or_default();
                let anchor = anchor(&self.last_heading);
                let again = (1..).map(|number| format!("{anchor}-{number}"));
                let free = [anchor.clone()].into_iter().chain(again).find(|name| !self.page.anchors.contains(name));
                self.page.anchors.extend(free);
            }
            Event::Start(Tag::Table(_)) => self.in_table = true,
            Event::End(TagEnd::Table) => self.in_table = false,
            Event::Start(Tag::TableRow | Tag::TableHead) => self.cell = 0,
            Event::End(TagEnd::TableCell) => self.cell += 1,
            Event::Start(Tag::Link { dest_url, .. }) => {
                self.page.links.push(Code { line, text: dest_url.to_string() });
            }
            Event::Code(text) => {
                if let Some(heading) = &mut self.heading {
                    heading.push_str(&text);
                }
                let code = Code { line, text: text.to_string() };
                if self.in_table && self.cell == 0 {
                    self.page.first_cells.entry(self.last_heading.clone()).or_default().push(code.clone());
                }
                self.page.code.push(code);
            }
            Event::Text(text) => {
                if let Some(fence) = &mut self.fence {
                    fence.text.push_str(&text);
                } else if let Some(heading) = &mut self.heading {
                    heading.push_str(&text);
                }
            }
            _ => {}
        }
    }
}

/// A heading's name in links, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|each| each.is_alphanumeric() || matches!(each, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|each| if each == ' ' { '-' } else { each }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A page, of `code`\n\n## Words\n\n## Words\n\nSee [there](other.md#a) and `kubectl hitless why`.\n\n| a | b |\n| --- | --- |\n\
                        | `x\\|y` | `z` |\n\n1. item\n\n   ```sh not run: why\n   one\n     two\n   ```\n";

    #[test]
    fn a_page_is_read_as_github_shows_it() {
        let page = Page::new("a.md".into(), PAGE);
        let anchors: Vec<&str> = page.anchors.iter().map(String::as_str).collect();
        assert_eq!(anchors, ["a-page-of-code", "words", "words-1"]);
        assert_eq!(page.links, [Code { line: 7, text: "other.md#a".into() }]);
        assert_eq!(page.first_cells["Words"], [Code { line: 11, text: "x|y".into() }]);
        let fence = &page.fences[0];
        assert_eq!((fence.line, fence.language(), fence.remark()), (15, "sh", "not run: why"));
        assert_eq!(fence.text, "one\n  two\n");
    }

    #[test]
    fn dots_stand_for_what_changes() {
        let fence = Fence { line: 1, info: "console".into(), text: "$ a b\nfrom …Z on\n…\nend\n$ c\n".into() };
        let steps = fence.steps();
        assert_eq!((steps.len(), steps[1].typed.as_str(), steps[0].words("a")), (2, "c", Some(vec!["b".to_owned()])));
        for good in ["from 10:00Z on\nend", "from 10:00Z on\nx\n\ny\nend\n"] {
            assert!(steps[0].shows(good), "{good}");
        }
        for bad in ["from 10:00 on\nend", "from 10:00Z on\nend\nx", "from 10:00Z\nend", "end", ""] {
            assert!(!steps[0].shows(bad), "{bad}");
        }
        assert!(steps[1].shows("") && !steps[1].shows("x"));
    }

    #[test]
    fn commands_are_those_that_somebody_types() {
        let text = "`kubectl hitless why`\n\n```console\n$ kubectl hitless plan -f a.yaml\nkubectl hitless is printed here\n```\n\n\
                    ```text\nkubectl hitless x\n```\n";
        let page = Page::new("a.md".into(), text);
        let found: Vec<(String, bool)> =
            page.commands("kubectl hitless").into_iter().map(|each| (each.words.join(" "), each.whole)).collect();
        assert_eq!(found, [("plan -f a.yaml".to_owned(), true), ("why".to_owned(), false)]);
    }
}
