package runbook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rutter/runbooks/step"
)

// Permissions returns what each role needs, over all steps, their rescues and
// the finally steps, sorted and each once. Names and namespaces may hold
// markers.
func (rb *Runbook) Permissions() map[string][]step.Permission {
	out := map[string][]step.Permission{}
	rb.Walk(func(s *Step, _ int) {
		if s.Role != "" {
			out[s.Role] = append(out[s.Role], s.page.Permissions()...)
		}
	})
	for role, perms := range out {
		slices.SortFunc(perms, ComparePermissions)
		out[role] = slices.Compact(perms)
	}
	return out
}

// ComparePermissions orders permissions by where they apply and to what.
func ComparePermissions(a, b step.Permission) int {
	return cmp.Or(
		strings.Compare(a.Resource.Group, b.Resource.Group), strings.Compare(a.Resource.Plural, b.Resource.Plural),
		strings.Compare(a.Subresource, b.Subresource), strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name), strings.Compare(a.Verb, b.Verb))
}

// ClusterRole returns the manifest of a ClusterRole that grants perms. It
// grants them in every namespace, since a ClusterRole cannot name one; bind it
// with a RoleBinding to narrow it.
func ClusterRole(name string, perms []step.Permission) string {
	type target struct{ group, resource string }
	verbs := map[target][]string{}
	var order []target
	for _, p := range perms {
		t := target{p.Resource.Group, p.Resource.Plural}
		if p.Subresource != "" {
			t.resource += "/" + p.Subresource
		}
		if _, ok := verbs[t]; !ok {
			order = append(order, t)
		}
		if !slices.Contains(verbs[t], p.Verb) {
			verbs[t] = append(verbs[t], p.Verb)
		}
	}
	slices.SortFunc(order, func(a, b target) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.resource, b.resource))
	})
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: %s\nrules:\n", name)
	for i := 0; i < len(order); {
		same := i + 1
		for same < len(order) && order[same].group == order[i].group && slices.Equal(verbs[order[same]], verbs[order[i]]) {
			same++
		}
		var resources []string
		for _, t := range order[i:same] {
			resources = append(resources, t.resource)
		}
		fmt.Fprintf(&b, "- apiGroups: [%q]\n  resources: [%s]\n  verbs: [%s]\n", order[i].group, strings.Join(resources, ", "), strings.Join(verbs[order[i]], ", "))
		i = same
	}
	return b.String()
}
