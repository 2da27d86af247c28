//! The wire contract of hitless: custom resources, annotation, label and condition names, and how they are (de)serialised.
//!
//! This crate does no I/O and knows no Kubernetes client. `docs/contract.md` explains the same objects in prose.
//! Every field has exactly one writer, named in the doc comment of the type that holds it.

pub mod clone_set;
pub mod colla_set;
pub mod config;
pub mod container_recreate_request;
pub mod crds;
pub mod crowd;
pub mod digest;
pub mod drain;
pub mod drain_policy;
pub mod event;
pub mod grant;
pub mod hook;
pub mod json_patch;
pub mod json_text;
pub mod label;
pub mod large;
pub mod ledger;
pub mod lenient;
pub mod lifecycle;
pub mod names;
pub mod node_transition;
pub mod object;
pub mod operation_job;
pub mod pod;
pub mod pod_decoration;
pub mod pod_transition_rule;
pub mod propagation;
pub mod pull;
pub mod reasons;
pub mod resource_context;
pub mod selector;
pub mod shared;
pub mod sidecar_injection;
pub mod sidecar_set;
pub mod traffic_provider;
pub mod transition;
pub mod transition_budget;
pub mod version;
pub mod wait;

pub use clone_set::{CloneSet, CloneSetSpec, CloneSetStatus};
pub use colla_set::{CollaSet, CollaSetSpec, CollaSetStatus};
pub use config::MountedConfig;
pub use container_recreate_request::{ContainerRecreateRequest, ContainerRecreateRequestStatus};
pub use drain::{DrainOverrides, DrainSpec, InvalidDrain, PortDrain, PortTreatment, StragglerPolicy, VerifySpec};
pub use drain_policy::{DesiredMode, DrainPolicy, DrainPolicySpec};
pub use grant::{Cancel, Change, Grant, GrantMode, GrantOp, PodRef, PostCheck};
pub use hook::{
    ExecHook, Hook, HookCall, HookFailurePolicy, HookLayer, HookMethod, HookOutcome, HookReport, HookScheme, HookTime,
    HttpHook,
};
pub use json_patch::JsonPatch;
pub use ledger::{Reservation, TransitionLedger, TransitionLedgerSpec};
pub use lenient::Lenient;
pub use node_transition::{NodeTransition, NodeTransitionSpec, NodeTransitionStatus};
pub use object::{GroupKind, ObjectRef};
pub use operation_job::{OperationJob, OperationJobSpec, OperationJobStatus};
pub use pod_decoration::{PodDecoration, PodDecorationSpec, PodDecorationStatus};
pub use pod_transition_rule::{PodTransitionRule, PodTransitionRuleSpec};
pub use propagation::Propagation;
pub use pull::{PullIdentity, PullPolicy};
pub use resource_context::{ContextDetail, ResourceContext};
pub use sidecar_injection::{InjectedSet, SidecarInjection, SidecarInjectionSpec};
pub use sidecar_set::{SidecarSet, SidecarSetSpec, SidecarSetStatus};
pub use traffic_provider::{TrafficProvider, TrafficProviderSpec};
pub use transition::{Outcome, Phase, Transition, TransitionResult};
pub use transition_budget::{TransitionBudget, TransitionBudgetSpec};
pub use version::Version;
pub use wait::{Wait, WaitPoint, WaitState};

/// Wall-clock time with microseconds, RFC 3339 on the wire.
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// Wall-clock time with seconds, RFC 3339 on the wire.
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
