//! Refusals: JSON with a documented code.

use serde::Deserialize;

use crate::ProviderError;

use super::call::Operation;
use super::service::{Meaning, Service};

/// Longest words of the API that are passed on, in characters.
const LONGEST_WORDS: usize = 300;

/// How the codes of refusals begin that may be none a little later.
const PASSING: [&str; 5] = ["Throttling", "ServiceUnavailable", "SystemBusy", "VpcSystemBusy", "IdempotenceProcessing"];
/// How the codes begin that say that a right is missing. CLB writes one of them as it is here.
const NO_RIGHT: [&str; 3] = ["forbidden", "forbbiden", "nopermission"];

/// A refusal.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Refusal {
    code: String,
    #[serde(default)]
    message: String,
}

impl Refusal {
    /// What can't be read is passed on as it is.
    pub(super) fn read(answer: &[u8]) -> Self {
        serde_json::from_slice(answer)
            .unwrap_or_else(|_| Self { code: "no code".into(), message: String::from_utf8_lossy(answer).into_owned() })
    }

    fn words(&self) -> String {
        format!("{}: {}", self.code, self.message).chars().take(LONGEST_WORDS).collect()
    }

    /// Too many requests, a moment of trouble at the other end, or the same request is still under way: it may succeed a little later.
    pub(super) fn passes(&self, status: u16) -> bool {
        let begins = |word: &str| self.code.starts_with(word);
        status == 429 || status >= 500 || PASSING.into_iter().any(begins)
    }

    /// The error that it is, by its documented code.
    pub(super) fn error(&self, service: Service, operation: &Operation) -> ProviderError {
        let request = operation.action.to_owned();
        let pool = operation.pool.clone();
        let code = self.code.to_ascii_lowercase();
        let is = |word: &str| code.starts_with(word);
        if is("invalidaccesskeyid") || is("signature") || is("incompletesignature") || is("invalidsecuritytoken") {
            let remedy = "check the access key, its secret and token, and this machine's clock";
            return ProviderError::Denied { request, remedy };
        }
        if NO_RIGHT.into_iter().any(is) {
            return ProviderError::Denied { request, remedy: service.rights() };
        }
        match (service.meaning(&code, &self.message.to_ascii_lowercase()), operation.server.clone()) {
            (Meaning::NoPool, _) => ProviderError::NoPool(pool),
            (Meaning::NoServer, Some(server)) => ProviderError::NoServer { pool, server },
            (Meaning::Exists, Some(server)) => ProviderError::Exists { pool, server },
            (Meaning::Busy, Some(server)) => ProviderError::Busy { pool, server, why: self.words() },
            (Meaning::NoServer | Meaning::Exists | Meaning::Busy, None) | (Meaning::Other, _) => {
                ProviderError::Refused { request, answer: self.words() }
            }
        }
    }
}
