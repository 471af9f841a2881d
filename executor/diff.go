package executor

import (
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"rutter/runbooks/step"
)

// masked stands for a value that is not shown.
const masked = "(masked)"

// Diff returns a change as a unified diff of YAML, without what the server
// counts by itself and without the contents of Secrets. It is "" for deletes
// and where nothing differs.
func Diff(c step.Change) string {
	if c.Op == step.OpDelete || c.After == nil {
		return ""
	}
	before, after := document(c.Before), document(c.After)
	if before == after {
		return ""
	}
	text := string(diff.Diff("now", []byte(before), "then", []byte(after)))
	// The first lines name the two sides, which the caller has said already.
	if i := strings.Index(text, "\n@@"); i >= 0 {
		text = text[i+1:]
	}
	return text
}

func document(obj *unstructured.Unstructured) string {
	if obj == nil {
		return ""
	}
	c := Redact(obj).DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
		unstructured.RemoveNestedField(c.Object, "metadata", field)
	}
	out, err := yaml.Marshal(c.Object)
	if err != nil {
		return ""
	}
	return string(out)
}

// Redact returns the object with the contents of a Secret masked, and with
// them what an earlier kubectl apply may have kept in an annotation. Other
// objects are returned as they are.
func Redact(obj *unstructured.Unstructured) *unstructured.Unstructured {
	if obj == nil || obj.GetKind() != "Secret" || obj.GetAPIVersion() != "v1" {
		return obj
	}
	c := obj.DeepCopy()
	for _, field := range []string{"data", "stringData"} {
		values, _, _ := unstructured.NestedMap(c.Object, field)
		for key := range values {
			values[key] = masked
		}
		if len(values) > 0 {
			_ = unstructured.SetNestedMap(c.Object, values, field) // it was a map
		}
	}
	if notes := c.GetAnnotations(); notes["kubectl.kubernetes.io/last-applied-configuration"] != "" {
		notes["kubectl.kubernetes.io/last-applied-configuration"] = masked
		c.SetAnnotations(notes)
	}
	return c
}
