//! What the kinds' resources need in RBAC. `cargo xtask generate` writes it into the roles in `manifests`, between two marks;
//! what the controller needs besides is written there by hand.

use std::fmt::Write as _;

use crate::component::{COMPONENTS, Component};
use crate::installed::Installed;
use crate::kind::Resource;
use crate::registry::{self, Holder};
use crate::right::Right;

const READ: &[&str] = &["get", "list", "watch"];
const BEGIN: &str = "# Generated from KINDS in crates/workloads by `cargo xtask generate`. Do not edit.\n";
const END: &str = "# End of what is generated.\n";

/// A manifest with a generated part: path in the repository and the rights in it.
#[must_use]
pub fn manifests() -> Vec<(String, Vec<Right>)> {
    let of_components = COMPONENTS.map(|each| (format!("manifests/{}/rbac/rbac.yaml", each.name), of(Some(each))));
    let own = [("rbac/controller.yaml", controller()), ("uninstall/account.yaml", uninstall(&[]))];
    own.into_iter().map(|(name, rights)| (format!("manifests/{name}"), rights)).chain(of_components).collect()
}

/// What the controller needs for the kinds of a component, or for those of hitless itself.
#[must_use]
pub fn of(component: Option<&Component>) -> Vec<Right> {
    // Any component may be there without the others; hitless itself always is.
    let of_component = |resource: &Resource| {
        let holders = registry::holders().filter(|holder| holder.resources().contains(resource));
        let of: Vec<Option<&Component>> = holders.map(Holder::component).collect();
        of.contains(&component) && (component.is_none() || !of.contains(&None))
    };
    let resources: Vec<&Resource> =
        registry::resources().map(|(_, resource)| resource).filter(|resource| of_component(resource)).collect();
    let mut rights = of_controller(&resources);
    rights.extend(registry::holders().filter(|holder| holder.component() == component).flat_map(Holder::rights));
    rights
}

/// What the controller needs in any case.
#[must_use]
pub fn controller() -> Vec<Right> {
    of(None)
}

fn of_controller(resources: &[&Resource]) -> Vec<Right> {
    let to = |resource: &&Resource| right(resource, resource.verbs, resource.why);
    let mut rights: Vec<Right> = resources.iter().map(to).collect();
    let names: Vec<String> =
        resources.iter().filter(|resource| resource.optional).map(|resource| resource.definition()).collect();
    if !names.is_empty() {
        rights.push(Right {
            group: "apiextensions.k8s.io".into(),
            resource: "customresourcedefinitions",
            names,
            verbs: READ.to_vec(),
            why: "whether the resource is there",
        });
    }
    rights
}

/// What the uninstall needs for the kinds of these components.
#[must_use]
pub fn uninstall(components: &[&'static Component]) -> Vec<Right> {
    let installed = Installed::with(components);
    let resources = installed.resources().map(|(_, resource)| resource);
    let changed = resources.filter(|resource| !resource.uninstall_verbs.is_empty());
    changed.map(|resource| right(resource, resource.uninstall_verbs, resource.uninstall_why)).collect()
}

fn right(resource: &Resource, verbs: &[&'static str], why: &'static str) -> Right {
    let verbs = [READ, verbs].concat();
    Right { group: resource.group_kind.group.clone(), resource: resource.plural, names: Vec::new(), verbs, why }
}

/// The manifest with these rights between its marks; nothing if it has no marks.
#[must_use]
pub fn with_rights(manifest: &str, rights: &[Right]) -> Option<String> {
    let (before, rest) = manifest.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{}{END}{after}", yaml(rights)))
}

fn yaml(rights: &[Right]) -> String {
    let mut text = String::new();
    for Right { group, resource, names, verbs, why } in rights {
        let group = if group.is_empty() { "\"\"" } else { group };
        let comment = if why.is_empty() { String::new() } else { format!(" # {why}") };
        // Writing to a String does not fail.
        let _ = writeln!(text, "- apiGroups: [{group}]\n  resources: [{resource}]{comment}");
        if !names.is_empty() {
            let _ = writeln!(text, "  resourceNames: [{}]", names.join(", "));
        }
        let _ = writeln!(text, "  verbs: [{}]", verbs.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitless_api::GroupKind;

    const OPTIONAL: Resource = Resource {
        group_kind: GroupKind::new("example.org", "Set"),
        version: "v1",
        plural: "sets",
        is_namespaced: true,
        optional: true,
        verbs: &["patch"],
        why: "holds it",
        uninstall_verbs: &[],
        uninstall_why: "",
    };

    #[test]
    fn the_definition_of_an_optional_resource_may_be_read_by_its_name() {
        let text = yaml(&of_controller(&[&OPTIONAL]));
        let wanted = "- apiGroups: [example.org]\n  resources: [sets] # holds it\n  verbs: [get, list, watch, patch]\n\
            - apiGroups: [apiextensions.k8s.io]\n  resources: [customresourcedefinitions] # whether the resource is there\n  \
            resourceNames: [sets.example.org]\n  verbs: [get, list, watch]\n";
        assert_eq!(text, wanted);
        assert!(of_controller(&[]).is_empty(), "without optional resources no definition is read");
    }

    #[test]
    fn what_is_between_the_marks_is_replaced_and_nothing_else() {
        let manifest = format!("rules:\n- mine\n{BEGIN}old\n{END}- mine, too\n");
        let rights = [Right { names: vec!["a".into()], ..right(&OPTIONAL, &[], "") }];
        let new = with_rights(&manifest, &rights).unwrap();
        assert!(new.starts_with("rules:\n- mine\n#") && new.ends_with("generated.\n- mine, too\n"), "{new}");
        assert!(!new.contains("old") && new.contains("resourceNames: [a]"), "{new}");
        assert_eq!(with_rights(&new, &rights).as_ref(), Some(&new));
        assert_eq!(with_rights("rules: []\n", &rights), None);
    }

    /// The API server lets nobody hand out more than he has, and the controller makes the uninstall's role.
    #[test]
    fn the_controller_has_what_the_uninstall_has() {
        let all: Vec<Right> = COMPONENTS.into_iter().map(Some).chain([None]).flat_map(of).collect();
        for right in uninstall(&COMPONENTS) {
            let own = all.iter().find(|own| (&own.group, own.resource) == (&right.group, right.resource)).unwrap();
            assert!(right.verbs.iter().all(|verb| own.verbs.contains(verb)), "{right:?}");
        }
    }
}
