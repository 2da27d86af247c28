//! The API server as controller and command line read and write it: what rounds look at, the function that sends a write,
//! and what is put back when nobody looks after it any more.

pub mod inputs;
mod read;
mod resource;
pub mod restore;
mod send;

pub use read::{Cached, Empty};
pub use resource::{api_of, api_resource};
pub use send::{Target, Written, creating, patching, send, try_create};
