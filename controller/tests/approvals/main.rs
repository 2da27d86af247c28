//! Asking external approvers: requests and answers row by row of kuperator's protocol (v0.7.4) and in any order of events, the client
//! against real TLS servers.

#[cfg(test)]
mod office;
#[cfg(test)]
mod polling;
#[cfg(test)]
mod questions;
#[cfg(test)]
mod request_orders;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod server;
#[cfg(test)]
mod transport;
