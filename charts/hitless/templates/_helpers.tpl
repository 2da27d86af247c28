{{- /* An image by digest, or by tag. */ -}}
{{- define "hitless.image" -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag }}
{{- end -}}
{{- end -}}

{{- /* How changed workloads are held: what was asked for, or the best that the API server has. Rendered without a cluster no kind is known,
not even a Deployment; then Kubernetes' version says what is there. */ -}}
{{- define "hitless.admission" -}}
{{- $has := .Capabilities.APIVersions -}}
{{- $group := "admissionregistration.k8s.io" -}}
{{- $best := "refusing" -}}
{{- if not ($has.Has "apps/v1/Deployment") -}}
{{- $best = ternary "v1" $best (semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version) -}}
{{- else if $has.Has (printf "%s/v1/MutatingAdmissionPolicy" $group) -}}
{{- $best = "v1" -}}
{{- else if $has.Has (printf "%s/v1beta1/MutatingAdmissionPolicy" $group) -}}
{{- $best = "v1beta1" -}}
{{- end -}}
{{- $asked := .Values.admission -}}
{{- if eq $asked "auto" -}}
{{ $best }}
{{- else if and (ne $asked "refusing") ($has.Has "apps/v1/Deployment") (not ($has.Has (printf "%s/%s/MutatingAdmissionPolicy" $group $asked))) -}}
{{- fail (printf "admission: %s needs MutatingAdmissionPolicy %s, which the API server does not serve; use admission: auto, which takes %s here" $asked $asked $best) -}}
{{- else -}}
{{ $asked }}
{{- end -}}
{{- end -}}
