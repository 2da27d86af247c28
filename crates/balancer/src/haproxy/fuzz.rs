//! What the fuzz targets (tests/fuzz) call: the functions that read answers, without a HAProxy. No API: nobody else may use it.

use crate::{Mark, PoolName, ProviderError, Server, ServerName};

use super::answer::{Target, says};
use super::{exchange, listing};

const COMMAND: &str = "show servers state";

/// The servers of a pool by the answer to the commands that list them.
pub fn servers(pool: &PoolName, mark: &Mark, answer: Vec<u8>) -> Result<Vec<Server>, ProviderError> {
    listing::servers(pool, mark, COMMAND, &exchange::text(COMMAND, answer)?)
}

/// Whether an answer says that a server is deleted.
pub fn deleted(pool: &PoolName, server: &ServerName, answer: Vec<u8>) -> Result<(), ProviderError> {
    says("Server deleted.", Target { pool, server }, COMMAND, &exchange::text(COMMAND, answer)?)
}
