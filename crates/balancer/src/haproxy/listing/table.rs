//! A table of text: a line of headings after `# `, and lines.

use std::str::FromStr;

/// Headings and lines.
pub(super) struct Table<'a> {
    headings: Vec<&'a str>,
    lines: Vec<&'a str>,
    split: fn(&str) -> Result<Vec<String>, String>,
}

/// One line, by its headings.
pub(super) struct Row<'a> {
    headings: &'a [&'a str],
    fields: Vec<String>,
}

impl<'a> Table<'a> {
    /// Fields are separated by single spaces.
    pub(super) fn spaces(text: &'a str) -> Result<Self, String> {
        Self::new(text, ' ', |line| Ok(line.split(' ').map(str::to_owned).collect()))
    }

    /// Fields are separated, and ended, by commas, and may be quoted.
    pub(super) fn commas(text: &'a str) -> Result<Self, String> {
        Self::new(text, ',', quoted)
    }

    fn new(text: &'a str, between: char, split: fn(&str) -> Result<Vec<String>, String>) -> Result<Self, String> {
        let mut lines = text.lines();
        let headings = lines.next().and_then(|line| line.strip_prefix("# ")).ok_or("it has no line of headings")?;
        let headings = headings.split(between).collect();
        Ok(Self { headings, lines: lines.collect(), split })
    }

    /// Makes something of each line.
    pub(super) fn rows<T>(&self, make: impl Fn(&Row<'_>) -> Result<T, String>) -> Result<Vec<T>, String> {
        let mut rows = Vec::with_capacity(self.lines.len());
        for line in &self.lines {
            let fields = (self.split)(line)?;
            if fields.len() != self.headings.len() {
                return Err(format!("a line has {} fields, and {} headings", fields.len(), self.headings.len()));
            }
            rows.push(make(&Row { headings: &self.headings, fields })?);
        }
        Ok(rows)
    }
}

impl Row<'_> {
    /// The field with this heading.
    pub(super) fn get(&self, heading: &str) -> Result<&str, String> {
        let place = self.headings.iter().position(|other| *other == heading);
        let field = place.and_then(|place| self.fields.get(place));
        field.map(String::as_str).ok_or_else(|| format!("it has no column {heading}"))
    }

    /// The field with this heading, as a number.
    pub(super) fn number<N: FromStr>(&self, heading: &str) -> Result<N, String> {
        let field = self.get(heading)?;
        field.parse().map_err(|_| format!("{heading} is {field:?}, which is no number of its kind"))
    }
}

/// Splits a line as RFC 4180 says: a quoted field may have commas, and quotes twice.
fn quoted(line: &str) -> Result<Vec<String>, String> {
    let mut fields = Vec::new();
    let mut field = String::new();
    let mut inside = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, inside) {
            ('"', true) if characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            ('"', _) => inside = !inside,
            (',', false) => fields.push(std::mem::take(&mut field)),
            (other, _) => field.push(other),
        }
    }
    fields.push(field);
    if inside { Err("a quote is not closed".into()) } else { Ok(fields) }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn quoted_fields_keep_their_commas() {
        assert_eq!(quoted(r#"a,"b, ""c""",,"#).unwrap(), ["a", r#"b, "c""#, "", ""]);
        assert!(quoted(r#"a,"b"#).is_err());
    }
}
