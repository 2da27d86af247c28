//! How a pod's images are pulled.

use k8s_openapi::api::core::v1::PodSpec;

/// `spec.containers[].imagePullPolicy`, which the API server always writes out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PullPolicy {
    /// The registry is asked at every start of the container. A registry that is away then keeps the container down.
    Always,
    /// The registry is asked only if the node does not have the image.
    #[default]
    IfNotPresent,
    /// The registry is never asked.
    Never,
}

impl PullPolicy {
    /// As the API has it; anything else is the default of a reference with a tag.
    #[must_use]
    pub fn of(text: Option<&str>) -> Self {
        match text {
            Some("Always") => Self::Always,
            Some("Never") => Self::Never,
            _ => Self::IfNotPresent,
        }
    }

    /// As the API has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

/// Whose credentials a pod's images are pulled with.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PullIdentity {
    /// `spec.serviceAccountName`; `None` is `default`.
    pub service_account: Option<String>,
    /// Names in `spec.imagePullSecrets`, with those that admission has added from the service account.
    pub secrets: Vec<String>,
}

impl PullIdentity {
    /// Of a pod as the API server has it.
    #[must_use]
    pub fn of(spec: &PodSpec) -> Self {
        Self {
            service_account: spec.service_account_name.clone().filter(|name| name != "default"),
            secrets: spec.image_pull_secrets.iter().flatten().map(|secret| secret.name.clone()).collect(),
        }
    }
}
