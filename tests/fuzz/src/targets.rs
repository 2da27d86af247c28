//! One file a target.

pub(crate) mod alibaba;
pub(crate) mod annotations;
pub(crate) mod approvers;
pub(crate) mod frames;
pub(crate) mod haproxy;
pub(crate) mod packet_filter;
pub(crate) mod proc_texts;
pub(crate) mod rules;
pub(crate) mod sock_diag;
