//! Reads a stage `FROM scratch` of a Dockerfile: just enough to make the same image without a builder.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::image::ImageSpec;
use crate::{Error, Result};

/// Reads the stage called `stage`.
///
/// `resolve` says where on this machine the file is that `COPY --from=… <path>` takes from another stage. Instructions
/// other than COPY, ENTRYPOINT, USER, ARG, ENV, LABEL and WORKDIR are refused: leaving one out would make another image. An
/// ARG has its default; `${NAME}` stands for it in later ENV and LABEL.
pub fn from_dockerfile(text: &str, stage: &str, resolve: impl Fn(&str) -> Option<PathBuf>) -> Result<ImageSpec> {
    let instructions = instructions(text);
    let mut inside = false;
    let mut found = false;
    let mut spec = ImageSpec::default();
    let mut arguments = BTreeMap::new();
    for (line, instruction) in &instructions {
        let error = |message: String| Error::Dockerfile { line: *line, message };
        let (keyword, rest) = instruction.split_once(char::is_whitespace).unwrap_or((instruction, ""));
        let (keyword, rest) = (keyword.to_ascii_uppercase(), rest.trim());
        if keyword == "FROM" {
            inside = is_stage(rest, stage);
            found |= inside;
            if inside && !rest.starts_with("scratch ") {
                return Err(error(format!("stage {stage} is not FROM scratch, which is all that can be made here")));
            }
        } else if inside {
            apply(&mut spec, &mut arguments, &keyword, rest, &resolve).map_err(error)?;
        }
    }
    if !found {
        return Err(Error::Dockerfile { line: 0, message: format!("there is no stage `FROM scratch AS {stage}`") });
    }
    Ok(spec)
}

/// The instructions with the numbers of their first lines; continued lines joined, comments left out.
fn instructions(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (content, continues) = line.strip_suffix('\\').map_or((line, false), |content| (content.trim_end(), true));
        match found.last_mut().filter(|_| open) {
            Some((_, joined)) => *joined = format!("{joined} {content}"),
            None => found.push((index + 1, content.to_owned())),
        }
        open = continues;
    }
    found
}

/// Whether the rest of a FROM ends with `AS <stage>`.
fn is_stage(from: &str, stage: &str) -> bool {
    let words: Vec<&str> = from.split_whitespace().collect();
    matches!(words[..], [.., keyword, name] if keyword.eq_ignore_ascii_case("as") && name == stage)
}

fn apply(
    spec: &mut ImageSpec,
    arguments: &mut BTreeMap<String, String>,
    keyword: &str,
    rest: &str,
    resolve: impl Fn(&str) -> Option<PathBuf>,
) -> Result<(), String> {
    match keyword {
        "COPY" => spec.files.extend(copy(rest, resolve)?),
        "ENTRYPOINT" => {
            let reason = "ENTRYPOINT must be a JSON list, as [\"/program\"]: an empty image has no shell";
            spec.entrypoint = serde_json::from_str(rest).map_err(|error| format!("{reason} ({error})"))?;
        }
        "USER" => rest.clone_into(&mut spec.user),
        "WORKDIR" => rest.clone_into(&mut spec.working_directory),
        "ARG" => arguments.extend(pairs(rest).map_err(|_| format!("ARG needs a default, not `{rest}`"))?),
        "ENV" => spec.env.extend(substituted(pairs(rest)?, arguments)?),
        "LABEL" => spec.labels.extend(substituted(pairs(rest)?, arguments)?),
        other => {
            let known = "COPY, ENTRYPOINT, USER, ARG, ENV, LABEL and WORKDIR";
            return Err(format!(
                "{other} is not understood here: an image for the cluster can be made of {known} only"
            ));
        }
    }
    Ok(())
}

fn copy(rest: &str, resolve: impl Fn(&str) -> Option<PathBuf>) -> Result<Vec<(PathBuf, String)>, String> {
    let (flags, paths): (Vec<&str>, Vec<&str>) = rest.split_whitespace().partition(|word| word.starts_with("--"));
    if !matches!(flags[..], [flag] if flag.starts_with("--from=")) {
        return Err(format!("COPY needs --from=<stage> and no other flag, not `COPY {rest}`"));
    }
    let [sources @ .., to] = &paths[..] else { return Err("COPY needs a source and a destination".into()) };
    if sources.is_empty() || !to.starts_with('/') || (sources.len() > 1 && !to.ends_with('/')) {
        return Err(format!("COPY needs sources and an absolute destination (a directory/ for several), not `{rest}`"));
    }
    sources.iter().map(|source| copied(source, to, &resolve)).collect()
}

fn copied(source: &str, to: &str, resolve: impl Fn(&str) -> Option<PathBuf>) -> Result<(PathBuf, String), String> {
    let from = resolve(source).ok_or_else(|| format!("nobody says where {source} of the other stage is"))?;
    let name = source.rsplit('/').next().unwrap_or_default();
    Ok((from, if to.ends_with('/') { format!("{to}{name}") } else { to.to_owned() }))
}

/// `KEY=value KEY2="two words"`.
fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let wrong = || format!("use KEY=value or KEY=\"two words\", not `{text}`");
    let mut rest = text.trim();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=').filter(|(key, _)| !key.contains(' ')).ok_or_else(wrong)?;
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or_else(wrong)?,
            None => after.split_once(char::is_whitespace).unwrap_or((after, "")),
        };
        found.push((key.to_owned(), value.to_owned()));
        rest = after.trim_start();
    }
    if found.is_empty() { Err(wrong()) } else { Ok(found) }
}

/// The values with their arguments.
fn substituted(
    pairs: Vec<(String, String)>,
    arguments: &BTreeMap<String, String>,
) -> Result<Vec<(String, String)>, String> {
    let value = |value: String| {
        let done = arguments.iter().fold(value, |value, (name, is)| value.replace(&format!("${{{name}}}"), is));
        if done.contains('$') { Err(format!("`{done}` names what is no ARG of this stage")) } else { Ok(done) }
    };
    pairs.into_iter().map(|(key, text)| Ok((key, value(text)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "FROM rust:1 AS build\nRUN cargo build\n\n# the agent\nFROM scratch AS agent\n\
        COPY --from=build /out/agent /agent\nENV A=1 B=\"two words\"\nLABEL l=x \\\n  m=y\nWORKDIR /work\nUSER 0\n\
        ENTRYPOINT [\"/agent\", \"run\"]\nFROM scratch AS other\nCOPY --from=build /out/a /out/b /bin/\n";

    fn host(path: &str) -> Option<PathBuf> {
        path.strip_prefix("/out/").map(|name| PathBuf::from("/host").join(name))
    }

    #[test]
    fn a_stage_is_read_without_the_others() {
        let spec = from_dockerfile(TEXT, "agent", host).unwrap();
        assert_eq!(spec.files, [(PathBuf::from("/host/agent"), "/agent".to_owned())]);
        assert_eq!(spec.entrypoint, ["/agent", "run"]);
        assert_eq!((spec.user.as_str(), spec.working_directory.as_str()), ("0", "/work"));
        assert_eq!(spec.env["B"], "two words");
        assert_eq!(spec.labels["m"], "y");
        let other = from_dockerfile(TEXT, "other", host).unwrap();
        assert_eq!(other.files[1], (PathBuf::from("/host/b"), "/bin/b".to_owned()));
    }

    #[test]
    fn an_argument_has_its_default() {
        let text = "FROM scratch AS x\nARG V=v1\nENV A=${V} B=is-${V}\n";
        let spec = from_dockerfile(text, "x", host).unwrap();
        assert_eq!((spec.env["A"].as_str(), spec.env["B"].as_str()), ("v1", "is-v1"));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_line() {
        let error = |stage_body: &str| {
            let text = format!("FROM scratch AS x\n{stage_body}\n");
            from_dockerfile(&text, "x", host).unwrap_err().to_string()
        };
        assert!(error("RUN true").starts_with("Dockerfile line 2: RUN is not understood"));
        assert!(error("ENTRYPOINT /x").contains("JSON list"));
        assert!(error("COPY a /b").contains("--from"));
        assert!(error("COPY --from=b --chmod=755 /a /b").contains("no other flag"));
        assert!(error("COPY --from=b /out/a b").contains("absolute"));
        assert!(error("ENV A").contains("KEY=value"));
        assert!(error("ENV").contains("KEY=value"));
        assert!(error("ENV A=$B").contains("no ARG"));
        assert!(error("ARG V").contains("default"));
    }

    #[test]
    fn an_unknown_stage_another_base_and_an_unknown_file_are_refused() {
        assert!(from_dockerfile(TEXT, "nobody", host).unwrap_err().to_string().contains("AS nobody"));
        assert!(from_dockerfile(TEXT, "build", host).unwrap_err().to_string().contains("not FROM scratch"));
        assert!(from_dockerfile(TEXT, "agent", |_| None).unwrap_err().to_string().contains("/out/agent"));
    }
}
