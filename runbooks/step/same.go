package step

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// sameContent compares two states of an object without what the server counts.
func sameContent(a, b *unstructured.Unstructured) bool {
	return contentOf(a) == contentOf(b)
}

func contentOf(o *unstructured.Unstructured) string {
	if o == nil {
		return ""
	}
	c := o.DeepCopy()
	unstructured.RemoveNestedField(c.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(c.Object, "metadata", "resourceVersion")
	unstructured.RemoveNestedField(c.Object, "metadata", "generation")
	text, err := yaml.Marshal(c.Object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// sameOwners compares which managers own which fields of two states. An apply
// that changes no field still writes the object if it makes a manager an owner.
func sameOwners(a, b *unstructured.Unstructured) bool { return ownersOf(a) == ownersOf(b) }

func ownersOf(o *unstructured.Unstructured) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "metadata", "managedFields")
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			delete(m, "time")
		}
	}
	text, err := yaml.Marshal(list)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
