//! Admission policies by their label, whether they change objects or judge them.

use std::collections::BTreeSet;
use std::fmt::Debug;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::admissionregistration::v1beta1;
use kube::api::ListParams;
use kube::core::Resource;
use kube::{Api, Client};
use serde::de::DeserializeOwned;

use crate::list;
use crate::write::WriteError;

/// Names of policies, and names of their bindings; with this label, or all. Before Kubernetes 1.36 API servers have no mutating ones,
/// or have them as `v1beta1`.
///
/// # Errors
/// If the API server does not answer, or says no.
pub async fn policies(
    client: &Client,
    label: Option<&str>,
) -> Result<(BTreeSet<String>, BTreeSet<String>), WriteError> {
    let (mutating, validating, first, second) = futures::try_join!(
        mutating(client, label),
        served::<ValidatingAdmissionPolicy>(client, label),
        mutating_bindings(client, label),
        served::<ValidatingAdmissionPolicyBinding>(client, label),
    )?;
    Ok((&mutating | &validating, &first | &second))
}

/// Names of the bindings with this label: of policies that change objects, and of policies that judge them.
///
/// # Errors
/// If the API server does not answer, or says no.
pub async fn bindings(client: &Client, label: &str) -> Result<(BTreeSet<String>, BTreeSet<String>), WriteError> {
    futures::try_join!(
        mutating_bindings(client, Some(label)),
        served::<ValidatingAdmissionPolicyBinding>(client, Some(label)),
    )
}

async fn mutating(client: &Client, label: Option<&str>) -> Result<BTreeSet<String>, WriteError> {
    either::<MutatingAdmissionPolicy, v1beta1::MutatingAdmissionPolicy>(client, label).await
}

async fn mutating_bindings(client: &Client, label: Option<&str>) -> Result<BTreeSet<String>, WriteError> {
    either::<MutatingAdmissionPolicyBinding, v1beta1::MutatingAdmissionPolicyBinding>(client, label).await
}

/// `First`, or `Second` where the API server serves only that.
async fn either<First, Second>(client: &Client, label: Option<&str>) -> Result<BTreeSet<String>, WriteError>
where
    First: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    Second: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    match names::<First>(client, label).await {
        Err(WriteError::Gone { .. }) => served::<Second>(client, label).await,
        answer => answer,
    }
}

/// None where the API server does not serve them.
async fn served<K>(client: &Client, label: Option<&str>) -> Result<BTreeSet<String>, WriteError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    match names::<K>(client, label).await {
        Err(WriteError::Gone { .. }) => Ok(BTreeSet::new()),
        answer => answer,
    }
}

async fn names<K>(client: &Client, label: Option<&str>) -> Result<BTreeSet<String>, WriteError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let params = ListParams { label_selector: label.map(str::to_owned), ..ListParams::default() };
    list::names(&Api::<K>::all(client.clone()), params).await
}
