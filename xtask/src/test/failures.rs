//! What a test program says of the tests that failed.

/// Most characters of a failure in the summary; all of it is in the output.
const MOST: usize = 400;

/// The tests that failed, by the list at the end of the program's output; none if it ended without one.
pub(super) fn names(output: &str) -> Vec<&str> {
    let Some((_, list)) = output.rsplit_once("\nfailures:\n") else { return Vec::new() };
    list.lines().map_while(|line| line.strip_prefix("    ")).collect()
}

/// The same with the words of each, shortened.
pub(super) fn told(output: &str) -> Vec<String> {
    let told = |name: &str| format!("{name}: {}", words(section(output, name)));
    names(output).into_iter().map(told).collect()
}

/// What a test has printed.
fn section<'o>(output: &'o str, name: &str) -> &'o str {
    let Some((_, rest)) = output.split_once(&format!("\n---- {name} stdout ----\n")) else { return "" };
    let end = ["\n---- ", "\nfailures:\n"].iter().filter_map(|mark| rest.find(mark)).min();
    end.map_or(rest, |end| &rest[..end])
}

/// An error and its causes, or a panic's message, in one line.
fn words(section: &str) -> String {
    let is_begin = |line: &&str| line.starts_with("Error: ") || line.contains(" panicked at ");
    let lines = section
        .lines()
        .skip_while(|line| !is_begin(line))
        .take_while(|line| !line.to_lowercase().starts_with("stack backtrace"));
    let parts: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty() && *line != "Caused by:").collect();
    parts.join("; ").chars().take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "test one ... ok\ntest two ... FAILED\n\nfailures:\n\n---- two stdout ----\nbefore\nError: no pod is ready\n\nCaused by:\n    \
                          0: it took\n    1: 120 s\n\nStack backtrace:\n   0: f\n\n---- room::three stdout ----\n\nthread 'three' panicked at a.rs:1:2:\nleft\nstack backtrace:\n   0: f\n\n\n\
                          failures:\n    two\n    room::three\n\ntest result: FAILED. 1 passed; 2 failed\n";

    #[test]
    fn the_list_at_the_end_tells_what_failed() {
        assert_eq!(names(OUTPUT), ["two", "room::three"]);
        assert!(names("test one ... \nterminated by signal 9\n").is_empty());
    }

    #[test]
    fn each_failure_is_told_in_a_line() {
        assert_eq!(
            told(OUTPUT),
            [
                "two: Error: no pod is ready; 0: it took; 1: 120 s",
                "room::three: thread 'three' panicked at a.rs:1:2:; left"
            ]
        );
    }
}
