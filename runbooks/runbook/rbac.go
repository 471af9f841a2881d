package runbook

import (
	"cmp"
	"fmt"
	"maps"
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

// verbOrder is the order in which verbs are named.
var verbOrder = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// SortVerbs returns the verbs in a set in their usual order.
func SortVerbs(verbs map[string]bool) []string {
	return slices.SortedFunc(maps.Keys(verbs), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
}

func rank(verb string) int {
	if i := slices.Index(verbOrder, verb); i >= 0 {
		return i
	}
	return len(verbOrder)
}

// ClusterRole returns the manifest of a ClusterRole that grants perms. It
// grants them in every namespace, since a ClusterRole cannot name one; bind it
// with a RoleBinding to narrow it.
func ClusterRole(name string, perms []step.Permission) string {
	type target struct{ group, resource string }
	verbs := map[target]map[string]bool{}
	for _, p := range perms {
		t := target{p.Resource.Group, p.Resource.Plural}
		if p.Subresource != "" {
			t.resource += "/" + p.Subresource
		}
		if verbs[t] == nil {
			verbs[t] = map[string]bool{}
		}
		verbs[t][p.Verb] = true
	}
	// Resources of a group that take the same verbs share a rule.
	type rule struct{ group, verbs string }
	rules := map[rule][]string{}
	for t, set := range verbs {
		r := rule{t.group, strings.Join(SortVerbs(set), ", ")}
		rules[r] = append(rules[r], t.resource)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: %s\nrules:\n", name)
	for _, r := range slices.SortedFunc(maps.Keys(rules), func(a, b rule) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.verbs, b.verbs))
	}) {
		slices.Sort(rules[r])
		fmt.Fprintf(&b, "  - apiGroups: [%q]\n    resources: [%s]\n    verbs: [%s]\n", r.group, strings.Join(rules[r], ", "), r.verbs)
	}
	return b.String()
}
