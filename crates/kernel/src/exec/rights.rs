//! The end of all rights of a helper.

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::ids::Ids;
use super::{HelperError, call};

/// Keeps processes of the same user from looking into this one.
pub(super) fn hide() -> Result<(), HelperError> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(call("can't keep others from looking"))
}

/// User and groups of the container; no capability, and no way to any.
pub(super) fn give_up(ids: &Ids) -> Result<(), HelperError> {
    for number in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            // One that this kernel does not know.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(error) => return Err(call("can't give up capabilities (CAP_SETPCAP is needed)")(error)),
        }
    }
    clear_ambient_capability_set().map_err(call("can't give up ambient capabilities"))?;
    set_thread_groups(&ids.groups()).map_err(call("can't take the container's groups (CAP_SETGID is needed)"))?;
    let (user, group) = (ids.user(), ids.group());
    set_thread_res_gid(group, group, group)
        .map_err(call("can't become the container's group (CAP_SETGID is needed)"))?;
    set_thread_res_uid(user, user, user).map_err(call("can't become the container's user (CAP_SETUID is needed)"))?;
    set_no_new_privs(true).map_err(call("can't give up new rights"))?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(call("can't give up capabilities"))?;
    // Another user than before counts as one who may be looked into again.
    hide()
}
