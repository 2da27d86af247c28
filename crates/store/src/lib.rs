//! The API server as controller and command line write to it: single writes to objects of workloads and to pods, and what is put back
//! when nobody looks after it any more.

mod resource;
pub mod restore;
mod send;

pub use resource::api_resource;
pub use send::{Target, Written, creating, patching, send, try_create};
