//! Fields of the manifests that the chart takes from values.

use anyhow::Context as _;
use hitless_workloads::COMPONENTS;
use serde_json::{Value, json};

use super::emit::{expression, field_lines, lines};
use super::kustomize::{Object, find};

const APPROVERS: &str =
    "{{- with .Values.approvers }}\n- {name: HITLESS_APPROVERS, value: {{ join \",\" . | quote }}}\n{{- end }}";
const PULL_SECRETS: &str = "{{- with .Values.imagePullSecrets }}\nimagePullSecrets: {{ toJson . }}\n{{- end }}";
/// The pod template's specification in a workload.
const POD: &str = "/spec/template/spec";
/// In both workloads: field below [`POD`], and name of the value below `agent` and `controller`.
const FIELDS: [(&str, &str); 3] =
    [("affinity", "affinity"), ("tolerations", "tolerations"), ("containers/0/resources", "resources")];

/// The setting that a component's patch adds: two of them would be two settings of one name.
const COMPONENTS_SETTING: &str = "HITLESS_COMPONENTS";

/// The components of other projects that are wanted, in one setting, as the component of `manifests` that has several says it.
fn components() -> Value {
    let mut names: Vec<String> = COMPONENTS.iter().map(|component| format!("\"{}\"", component.name)).collect();
    names.sort();
    lines(&format!(
        "{{{{- $components := list }}}}\n{{{{- range list {} }}}}\n{{{{- if has . $.Values.components }}}}\n{{{{- $components = append $components . }}}}\n\
         {{{{- end }}}}\n{{{{- end }}}}\n{{{{- with $components }}}}\n- {{name: {COMPONENTS_SETTING}, value: {{{{ join \",\" . | quote }}}}}}\n{{{{- end }}}}",
        names.join(" ")
    ))
}

/// What stood in the manifests: the defaults of the values.
pub(super) struct Defaults {
    pub(super) agent: Value,
    pub(super) controller: Value,
}

/// Puts expressions in the place of these fields. Returns what stood there: the defaults of the values.
pub(super) fn replace(objects: &mut [Object]) -> anyhow::Result<Defaults> {
    let agent = workload(find(objects, "DaemonSet", "hitless-agent")?, "agent")?;
    let controller = find(objects, "Deployment", "hitless-controller")?;
    let settings = environment(controller)?;
    settings.retain(|setting| !setting.to_string().contains(COMPONENTS_SETTING));
    settings.extend([components(), lines(APPROVERS)]);
    Ok(Defaults { agent, controller: workload(controller, "controller")? })
}

fn workload(object: &mut Object, name: &str) -> anyhow::Result<Value> {
    let mut defaults = json!({});
    for (field, value) in FIELDS {
        let there = at(object, field)?;
        defaults[value] = std::mem::replace(there, expression(&format!("toJson .Values.{name}.{value}")));
    }
    let image = at(object, "containers/0/image")?;
    let whole = image.as_str().context("an image that is no text")?;
    let (repository, tag) = whole.rsplit_once(':').with_context(|| format!("{whole} has no tag"))?;
    defaults["image"] = json!({"digest": "", "repository": repository, "tag": tag});
    *image = expression(&format!("include \"hitless.image\" .Values.{name}.image | quote"));
    let settings = format!(
        "{{{{- range $name, $value := .Values.{name}.settings }}}}\n- {{name: {{{{ $name }}}}, value: {{{{ $value | quote }}}}}}\n{{{{- end }}}}"
    );
    environment(object)?.push(lines(&settings));
    defaults["settings"] = json!({});
    let pod = object.value.pointer_mut(POD).and_then(Value::as_object_mut).context("a workload without pods")?;
    let (key, secrets) = field_lines(PULL_SECRETS);
    pod.insert(key, secrets);
    Ok(defaults)
}

fn environment(object: &mut Object) -> anyhow::Result<&mut Vec<Value>> {
    at(object, "containers/0/env")?.as_array_mut().context("an environment that is no list")
}

fn at<'o>(object: &'o mut Object, field: &str) -> anyhow::Result<&'o mut Value> {
    let path = format!("{POD}/{field}");
    let file = object.file.clone();
    object.value.pointer_mut(&path).with_context(|| format!("{file} has no {path}"))
}
