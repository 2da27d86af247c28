//! What the API checks of a request's signature, written from the documentation and not from the provider's code.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use ring::{digest, hmac};

pub(crate) const KEY_ID: &str = "key-id";
pub(crate) const SECRET: &str = "key-secret";

/// The documented code of what is wrong.
pub(crate) fn check(fields: &HeaderMap, query: &BTreeMap<String, String>, body: &[u8]) -> Result<(), &'static str> {
    let field = |name: &str| fields.get(name).and_then(|value| value.to_str().ok()).ok_or("IncompleteSignature");
    if field("x-acs-content-sha256")? != hex(digest::digest(&digest::SHA256, body).as_ref()) {
        return Err("IncompleteSignature");
    }
    let authorization = field("authorization")?.strip_prefix("ACS3-HMAC-SHA256 ").ok_or("IncompleteSignature")?;
    let parts: BTreeMap<&str, &str> = authorization.split(',').filter_map(|part| part.split_once('=')).collect();
    if parts["Credential"] != KEY_ID {
        return Err("InvalidAccessKeyId.NotFound");
    }
    let signed: Vec<&str> = parts["SignedHeaders"].split(';').collect();
    let must = fields
        .keys()
        .map(axum::http::HeaderName::as_str)
        .filter(|name| name.starts_with("x-acs-") || ["host", "content-type"].contains(name));
    if must.into_iter().any(|name| !signed.contains(&name)) || !signed.is_sorted() {
        return Err("IncompleteSignature");
    }
    let mut lines = vec!["POST".to_owned(), "/".to_owned(), canonical(query)];
    for name in &signed {
        lines.push([name, ":", field(name)?].concat());
    }
    let content = field("x-acs-content-sha256")?;
    lines.extend([String::new(), parts["SignedHeaders"].to_owned(), content.to_owned()]);
    let canonical = lines.join("\n");
    let hashed = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let signature = hex(hmac::sign(&key, format!("ACS3-HMAC-SHA256\n{hashed}").as_bytes()).as_ref());
    if parts["Signature"] == signature { Ok(()) } else { Err("SignatureDoesNotMatch") }
}

/// Sorted by name; letters, digits and `-_.~` as they are.
fn canonical(query: &BTreeMap<String, String>) -> String {
    let byte = |byte: u8| match byte {
        b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let encoded = |text: &str| text.bytes().map(byte).collect::<String>();
    let pairs: Vec<String> = query.iter().map(|(name, value)| [encoded(name), encoded(value)].join("=")).collect();
    pairs.join("&")
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0x0f]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}
