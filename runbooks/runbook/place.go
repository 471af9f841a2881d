package runbook

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"rutter/runbooks/diag"
	"rutter/runbooks/expr"
)

// place compiles the expressions of one step.
type place struct {
	c     *compiler
	step  *Step
	scope *scope
	env   *expr.Env
	own   string // the step's id where it may refer to its own outputs
}

func (at *place) program(n *yaml.Node, want expr.Type) *expr.Program {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" && n.ShortTag() != "!!bool" {
		at.c.list.Addf(at.c.dec.Pos(n), "want a CEL expression")
		return nil
	}
	if strings.HasPrefix(n.Value, "${") && strings.HasSuffix(n.Value, "}") {
		at.c.list.AddHint(at.c.dec.Pos(n), "drop the ${ and }", "this is CEL as it stands")
		return nil
	}
	p, err := at.env.Compile(n.Value, want)
	if err != nil {
		at.c.exprErrors(n, err, at.explain)
		return nil
	}
	at.refs(n, p.Refs())
	return p
}

func (at *place) template(n *yaml.Node, want expr.Type) *expr.Template {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		at.c.list.AddHint(at.c.dec.Pos(n), "quote it, or write ${…}", "want text")
		return nil
	}
	t, err := at.env.Template(n.Value, want)
	if err != nil {
		at.c.exprErrors(n, err, at.explain)
		return nil
	}
	at.refs(n, t.Refs())
	return t
}

// explain says why a reference to a step's output does not work.
func (at *place) explain(ref string) (msg, hint string) {
	parts := strings.SplitN(ref, ".", 3)
	if parts[0] != "steps" || len(parts) < 2 {
		return "", ""
	}
	id := parts[1]
	var ids []string
	for id := range at.scope.visible {
		ids = append(ids, id)
	}
	pos, exists := at.c.ids[id]
	switch s := at.scope.visible[id]; {
	case s != nil && len(parts) == 3:
		var outputs []string
		for _, o := range s.Outputs {
			outputs = append(outputs, o.Name)
		}
		return "step " + id + " has no output " + quoted(parts[2]), diag.DidYouMean(parts[2], outputs)
	case s != nil:
		return "steps." + id + " is not a value: name one of its outputs", ""
	case !exists:
		return "there is no step " + quoted(id), diag.DidYouMean(id, ids)
	case id == at.step.ID:
		return "step " + id + " refers to itself, before it has run", ""
	case pos.Line > at.step.Pos.Line:
		return "step " + id + " comes later, on line " + itoa(pos.Line), "move it before this one"
	}
	return "step " + id + " stands in a rescue and may never run", "use it inside that rescue only"
}

// refs reports outputs of steps that may have been skipped, unless this step
// is skipped with them.
func (at *place) refs(n *yaml.Node, refs []expr.Ref) {
	for _, r := range refs {
		parts := strings.Split(r.Name, ".")
		if parts[0] != "steps" || len(parts) < 3 || parts[1] == at.own || at.scope.finally {
			continue
		}
		s := at.scope.visible[parts[1]]
		if s == nil || s.If == nil || at.step.If != nil && implies(at.step.If.Source(), s.If.Source()) {
			continue
		}
		at.c.list.AddHint(at.c.dec.At(n, r.Offset), "give this step the same if, or drop that one's",
			"step %s may be skipped, and then has no %s", s.ID, parts[2])
	}
}

// implies reports whether a condition has another as one of its conjuncts.
func implies(cond, other string) bool {
	norm := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if norm(cond) == norm(other) {
		return true
	}
	if strings.Contains(cond, "||") || strings.Contains(cond, "?") {
		return false
	}
	var have []string
	for _, part := range strings.Split(cond, "&&") {
		have = append(have, norm(part))
	}
	for _, part := range strings.Split(other, "&&") {
		if !slices.Contains(have, norm(part)) {
			return false
		}
	}
	return true
}
