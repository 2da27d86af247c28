//! Admission policies by their label, whether they change objects or judge them.

use std::collections::BTreeSet;
use std::fmt::Debug;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
};
use kube::api::ListParams;
use kube::core::Resource;
use kube::{Api, Client};
use serde::de::DeserializeOwned;

use crate::list;
use crate::write::WriteError;

/// Names of policies, and names of their bindings; with this label, or all. Before Kubernetes 1.36 API servers have no mutating ones.
///
/// # Errors
/// If the API server does not answer, or says no.
pub async fn policies(
    client: &Client,
    label: Option<&str>,
) -> Result<(BTreeSet<String>, BTreeSet<String>), WriteError> {
    let (mutating, validating, first, second) = futures::try_join!(
        names::<MutatingAdmissionPolicy>(client, label),
        names::<ValidatingAdmissionPolicy>(client, label),
        names::<MutatingAdmissionPolicyBinding>(client, label),
        names::<ValidatingAdmissionPolicyBinding>(client, label),
    )?;
    Ok((&mutating | &validating, &first | &second))
}

/// Names of the bindings with this label: of policies that change objects, and of policies that judge them.
///
/// # Errors
/// If the API server does not answer, or says no.
pub async fn bindings(client: &Client, label: &str) -> Result<(BTreeSet<String>, BTreeSet<String>), WriteError> {
    futures::try_join!(
        names::<MutatingAdmissionPolicyBinding>(client, Some(label)),
        names::<ValidatingAdmissionPolicyBinding>(client, Some(label)),
    )
}

async fn names<K>(client: &Client, label: Option<&str>) -> Result<BTreeSet<String>, WriteError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let params = ListParams { label_selector: label.map(str::to_owned), ..ListParams::default() };
    match list::names(&Api::<K>::all(client.clone()), params).await {
        // The API server does not serve them.
        Err(WriteError::Gone { .. }) => Ok(BTreeSet::new()),
        answer => answer,
    }
}
