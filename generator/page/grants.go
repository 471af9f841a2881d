package page

import (
	"cmp"
	"html/template"
	"maps"
	"slices"
	"strings"

	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// Grant is what a runbook asks of one cluster.
type Grant struct {
	Role     string // "" if there is only one
	Rows     []GrantRow
	Manifest template.HTML
}

// GrantRow is one line of the table: resources that take the same verbs at the
// same place.
type GrantRow struct {
	Where, Verbs string
	Resources    []string
}

func (b *builder) grants() []Grant {
	byRole := map[string][]step.Permission{}
	b.rb.Walk(func(s *runbook.Step, _ int) {
		if ps := s.Page().Permissions(); len(ps) > 0 {
			byRole[s.Role] = append(byRole[s.Role], ps...)
		}
	})
	var out []Grant
	for _, role := range slices.Sorted(maps.Keys(byRole)) {
		g := Grant{Rows: rows(byRole[role])}
		if len(byRole) > 1 {
			g.Role = role
		}
		g.Manifest = b.markup.Highlight(runbook.ClusterRole("rutter-"+b.rb.Name, byRole[role]), "yaml", "ClusterRole")
		out = append(out, g)
	}
	return out
}

func resourceName(p step.Permission) string {
	s := p.Resource.Unversioned().String()
	if p.Subresource != "" {
		s += "/" + p.Subresource
	}
	return s
}

// rows groups permissions by where they hold and which verbs they give. What a
// wider permission includes is not said again.
func rows(ps []step.Permission) []GrantRow {
	type place struct{ where, resource string }
	verbs := map[place]map[string]bool{}
	for _, p := range ps {
		if slices.ContainsFunc(ps, func(q step.Permission) bool { return q != p && q.Allows(p) && !p.Allows(q) }) {
			continue
		}
		k := place{where(p), resourceName(p)}
		if verbs[k] == nil {
			verbs[k] = map[string]bool{}
		}
		verbs[k][p.Verb] = true
	}
	type group struct{ where, verbs string }
	resources := map[group][]string{}
	for k, vs := range verbs {
		g := group{k.where, strings.Join(runbook.SortVerbs(vs), ", ")}
		resources[g] = append(resources[g], k.resource)
	}
	var out []GrantRow
	for g, names := range resources {
		slices.Sort(names)
		out = append(out, GrantRow{Where: g.where, Verbs: g.verbs, Resources: names})
	}
	slices.SortFunc(out, func(a, b GrantRow) int {
		return cmp.Or(compareBool(a.Where != everywhere, b.Where != everywhere), cmp.Compare(a.Where, b.Where), cmp.Compare(a.Verbs, b.Verbs))
	})
	return out
}

const everywhere = "everywhere"

func where(p step.Permission) string {
	switch {
	case p.Name != "" && p.Namespace != "":
		return step.Readable(p.Name) + " in namespace " + step.Readable(p.Namespace)
	case p.Name != "":
		return "only " + step.Readable(p.Name)
	case p.Namespace != "":
		return "in namespace " + step.Readable(p.Namespace)
	}
	return everywhere
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
