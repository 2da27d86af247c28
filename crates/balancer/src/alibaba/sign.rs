//! Signatures of requests: ACS3-HMAC-SHA256, "Request syntax and signature method V3" in Alibaba Cloud's SDK documentation.

use std::fmt;

use jiff::Timestamp;
use ring::{digest, hmac};

const ALGORITHM: &str = "ACS3-HMAC-SHA256";

/// An access key, with a security token if it is a temporary one. Its secret is never printed.
#[derive(Clone)]
pub struct Credentials {
    key_id: String,
    secret: String,
    token: Option<String>,
}

impl Credentials {
    /// A permanent access key.
    #[must_use]
    pub fn new(key_id: impl Into<String>, secret: impl Into<String>) -> Self {
        Self { key_id: key_id.into(), secret: secret.into(), token: None }
    }

    /// With the token of a temporary access key (STS).
    #[must_use]
    pub fn with_token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// What is signed besides the credentials. All parameters are in the query or in the body; the path is `/`.
pub(super) struct Unsigned<'a> {
    pub(super) host: &'a str,
    pub(super) action: &'a str,
    pub(super) version: &'a str,
    /// Sorted and encoded.
    pub(super) query: &'a str,
    /// The body and its type.
    pub(super) body: Option<(&'a str, &'a [u8])>,
    pub(super) now: Timestamp,
    pub(super) nonce: &'a str,
}

/// All header fields of a POST request, with its signature.
pub(super) fn header_fields(credentials: &Credentials, request: &Unsigned<'_>) -> Vec<(&'static str, String)> {
    let content = hex(digest::digest(&digest::SHA256, request.body.map_or(&[][..], |(_, body)| body)).as_ref());
    let mut fields = vec![
        ("host", request.host.to_owned()),
        ("x-acs-action", request.action.to_owned()),
        ("x-acs-content-sha256", content.clone()),
        ("x-acs-date", request.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        ("x-acs-signature-nonce", request.nonce.to_owned()),
        ("x-acs-version", request.version.to_owned()),
    ];
    fields.extend(request.body.map(|(kind, _)| ("content-type", kind.to_owned())));
    fields.extend(credentials.token.clone().map(|token| ("x-acs-security-token", token)));
    fields.sort_unstable();
    let names = fields.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let lines = fields.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect::<Vec<_>>().concat();
    let canonical = format!("POST\n/\n{}\n{lines}\n{names}\n{content}", request.query);
    let hashed = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let key = hmac::Key::new(hmac::HMAC_SHA256, credentials.secret.as_bytes());
    let signature = hex(hmac::sign(&key, format!("{ALGORITHM}\n{hashed}").as_bytes()).as_ref());
    let key_id = &credentials.key_id;
    fields.push((
        "authorization",
        format!("{ALGORITHM} Credential={key_id},SignedHeaders={names},Signature={signature}"),
    ));
    fields
}

/// Something that no other request has, 32 hexadecimal digits.
pub(super) fn nonce() -> String {
    format!("{:032x}", fastrand::u128(..))
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0x0f]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field<'a>(fields: &'a [(&str, String)], name: &str) -> &'a str {
        &fields.iter().find(|(other, _)| *other == name).unwrap().1
    }

    fn documented(credentials: &Credentials) -> Vec<(&'static str, String)> {
        let request = Unsigned {
            host: "ecs.cn-shanghai.aliyuncs.com",
            action: "RunInstances",
            version: "2014-05-26",
            query: "ImageId=win2019_1809_x64_dtc_zh-cn_40G_alibase_20230811.vhd&RegionId=cn-shanghai",
            body: None,
            now: "2023-10-26T10:22:32Z".parse().unwrap(),
            nonce: "3156853299f313e23d1673dc12e1703d",
        };
        header_fields(credentials, &request)
    }

    /// The example with fixed parameters of the documentation.
    #[test]
    fn the_documented_example_gets_the_documented_signature() {
        let credentials = Credentials::new("YourAccessKeyId", "YourAccessKeySecret");
        assert_eq!(
            field(&documented(&credentials), "authorization"),
            "ACS3-HMAC-SHA256 Credential=YourAccessKeyId,SignedHeaders=host;x-acs-action;x-acs-content-sha256;x-acs-date;\
             x-acs-signature-nonce;x-acs-version,\
             Signature=06563a9e1b43f5dfe96b81484da74bceab24a1d853912eee15083a6f0f3283c0"
        );
    }

    #[test]
    fn a_security_token_is_sent_and_signed() {
        let fields = documented(&Credentials::new("id", "secret").with_token("token"));
        assert_eq!(field(&fields, "x-acs-security-token"), "token");
        assert!(field(&fields, "authorization").contains("x-acs-date;x-acs-security-token;x-acs-signature-nonce"));
    }

    #[test]
    fn secrets_are_not_printed() {
        let printed = format!("{:?}", Credentials::new("id", "secret").with_token("token"));
        assert!(printed.contains("id") && !printed.contains("secret") && !printed.contains("token"), "{printed}");
    }

    #[test]
    fn nonces_differ() {
        assert_ne!(nonce(), nonce());
        assert_eq!(nonce().len(), 32);
    }
}
