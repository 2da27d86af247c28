//! An object whose body is known to be of one kind.

use std::ops::Deref;

use super::{Body, Object};
use crate::kinds::clone_set::body::CloneSetBody;
use crate::kinds::colla_set::body::CollaSetBody;
use crate::kinds::daemon_set::body::DaemonSetBody;
use crate::kinds::deployment::body::{DeploymentBody, ReplicaSetBody};
use crate::kinds::pod_decoration::body::DecorationBody;
use crate::kinds::sidecar_set::body::SidecarSetBody;
use crate::kinds::sidecar_set::injection::InjectionBody;
use crate::kinds::stateful_set::body::StatefulSetBody;
use crate::revision::body::RevisionBody;

/// An object whose body is known to be of one kind.
#[derive(Debug)]
pub struct Typed<'a, B> {
    /// The object.
    pub object: &'a Object,
    /// Its body.
    pub body: &'a B,
}

impl<B> Clone for Typed<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Typed<'_, B> {}

impl<B> Deref for Typed<'_, B> {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.object
    }
}

/// A Deployment.
pub type Deployment<'a> = Typed<'a, DeploymentBody>;
/// A ReplicaSet.
pub type ReplicaSet<'a> = Typed<'a, ReplicaSetBody>;
/// A StatefulSet.
pub type StatefulSet<'a> = Typed<'a, StatefulSetBody>;
/// A DaemonSet.
pub type DaemonSet<'a> = Typed<'a, DaemonSetBody>;
/// A CollaSet.
pub type CollaSet<'a> = Typed<'a, CollaSetBody>;
/// A CloneSet.
pub type CloneSet<'a> = Typed<'a, CloneSetBody>;
/// A PodDecoration.
pub type PodDecoration<'a> = Typed<'a, DecorationBody>;
/// A SidecarSet.
pub type SidecarSet<'a> = Typed<'a, SidecarSetBody>;
/// The SidecarInjection.
pub type SidecarInjection<'a> = Typed<'a, InjectionBody>;
/// A ControllerRevision.
pub type Revision<'a> = Typed<'a, RevisionBody>;

impl Object {
    /// As a Deployment, if it is one.
    #[must_use]
    pub fn deployment(&self) -> Option<Deployment<'_>> {
        match &self.body {
            Body::Deployment(body) => Some(Typed { object: self, body }),
            _ => None,
        }
    }

    /// As a ReplicaSet, if it is one.
    #[must_use]
    pub fn replica_set(&self) -> Option<ReplicaSet<'_>> {
        match &self.body {
            Body::ReplicaSet(body) => Some(Typed { object: self, body }),
            _ => None,
        }
    }

    /// As a StatefulSet, if it is one.
    #[must_use]
    pub fn stateful_set(&self) -> Option<StatefulSet<'_>> {
        match &self.body {
            Body::StatefulSet(body) => Some(Typed { object: self, body }),
            _ => None,
        }
    }

    /// As a DaemonSet, if it is one.
    #[must_use]
    pub fn daemon_set(&self) -> Option<DaemonSet<'_>> {
        match &self.body {
            Body::DaemonSet(body) => Some(Typed { object: self, body }),
            _ => None,
        }
    }

    /// As a CollaSet, if it is one.
    #[must_use]
    pub fn colla_set(&self) -> Option<CollaSet<'_>> {
        match &self.body {
            Body::CollaSet(body) => Some(Typed { object: self, body }),
            _ => None,
        }
    }

    /// As a CloneSet, if it is one.
    #[must_use]
    pub fn clone_set(&self) -> Option<CloneSet<'_>> {
        match &self.body {
            Body::CloneSet(body) => Some(Typed { object: self, body }),
            _ => None,
        }
    }

    /// As a PodDecoration, if it is one.
    #[must_use]
    pub fn pod_decoration(&self) -> Option<PodDecoration<'_>> {
        match &self.body {
            Body::PodDecoration(body) => Some(Typed { object: self, body }),
            _ => None,
        }
    }

    /// As a SidecarSet, if it is one.
    #[must_use]
    pub fn sidecar_set(&self) -> Option<SidecarSet<'_>> {
        match &self.body {
            Body::SidecarSet(body) => Some(Typed { object: self, body }),
            _ => None,
        }
    }

    /// As the SidecarInjection, if it is one.
    #[must_use]
    pub fn sidecar_injection(&self) -> Option<SidecarInjection<'_>> {
        match &self.body {
            Body::SidecarInjection(body) => Some(Typed { object: self, body }),
            _ => None,
        }
    }

    /// As a ControllerRevision, if it is one.
    #[must_use]
    pub fn controller_revision(&self) -> Option<Revision<'_>> {
        match &self.body {
            Body::ControllerRevision(body) => Some(Typed { object: self, body }),
            _ => None,
        }
    }
}
