package runbook

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"rutter/runbooks/diag"
	"rutter/runbooks/expr"
	"rutter/runbooks/step"
	"rutter/runbooks/yamldoc"
)

// binder decodes a step's arguments into a fresh action. What strings and
// conditions become is up to the caller.
type binder struct {
	step *Step
	src  diag.Source
	list *diag.List
	text func(n *yaml.Node, want reflect.Type) (any, bool)
	cond func(n *yaml.Node) step.Condition
}

func (b *binder) action() step.Action {
	action := b.step.Kind.New()
	dec := &yamldoc.Decoder{Source: b.src, List: b.list, String: b.text, Elsewhere: b.elsewhere,
		Types: map[reflect.Type]func(*yamldoc.Decoder, *yaml.Node, reflect.Value){
			reflect.TypeFor[step.Condition](): func(_ *yamldoc.Decoder, n *yaml.Node, v reflect.Value) {
				v.Set(reflect.ValueOf(b.cond(n)))
			},
		}}
	dec.Into(b.step.args, action, b.step.Kind.Name)
	step.SetTimeout(action, b.step.Timeout)
	if roled, ok := action.(step.Roled); ok {
		roled.SetRole(b.step.Role)
	}
	return action
}

// elsewhere knows the keys that belong to the step, beside its verb.
func (b *binder) elsewhere(key string) string {
	for _, f := range yamldoc.Fields(reflect.TypeFor[common]()) {
		if f.Name == key {
			return key + " belongs to the step, beside " + b.step.Kind.Name
		}
	}
	return ""
}

// Bind returns the step's action with its expressions evaluated on vars, whose
// keys are the dotted names that expressions use. Names of values that are not
// known yet are returned in unknown; the action then holds markers for them
// and can be shown, but not run.
func (s *Step) Bind(ctx context.Context, vars expr.Vars) (action step.Action, unknown []string, err error) {
	var list diag.List
	var failed error
	names := map[string]bool{}
	b := &binder{step: s, src: s.runbook.Source, list: &list}
	b.text = func(n *yaml.Node, _ reflect.Type) (any, bool) {
		t := s.strings[n]
		if t == nil {
			return nil, false
		}
		v, err := t.Eval(ctx, vars)
		switch {
		case err != nil:
			if failed == nil {
				failed = fmt.Errorf("%s: %w", yamldoc.Locate(s.runbook.Source, n, 0), err)
			}
			return nil, true
		case len(v.Unknown) > 0:
			for _, name := range v.Unknown {
				names[name] = true
			}
			return s.symbolic(t), true
		}
		return v.V, true
	}
	b.cond = func(n *yaml.Node) step.Condition {
		return s.condition(n, vars)
	}
	action = b.action()
	if failed == nil {
		failed = list.Err()
	}
	if failed != nil {
		return nil, nil, failed
	}
	return action, slices.Sorted(maps.Keys(names)), nil
}

// Items evaluates what the step is repeated for: one nil item for a step that
// is done once. Names of values that are not known yet are returned in unknown.
func (s *Step) Items(ctx context.Context, vars expr.Vars) (items []any, unknown []string, err error) {
	if s.Each == nil {
		return []any{nil}, nil, nil
	}
	v, err := s.Each.Items.Eval(ctx, vars)
	if err != nil || len(v.Unknown) > 0 {
		return nil, v.Unknown, err
	}
	items, ok := v.V.([]any)
	if !ok {
		return nil, nil, fmt.Errorf("forEach: %s is not a list", s.Each.Items.Source())
	}
	return items, nil, nil
}

// With returns vars with the item at hand.
func (s *Step) With(vars expr.Vars, item any) expr.Vars {
	if s.Each == nil {
		return vars
	}
	with := maps.Clone(vars)
	with[s.Each.As] = item
	return with
}

// condition returns a condition that is evaluated on vars and a result.
func (s *Step) condition(n *yaml.Node, vars expr.Vars) step.Condition {
	p := s.conditions[n]
	cond := step.Condition{Source: p.Source(), Equals: equality(p.Source())}
	cond.Eval = func(ctx context.Context, result any) (bool, error) {
		with := maps.Clone(vars)
		with["result"] = result
		v, err := p.Eval(ctx, with)
		if err != nil {
			return false, err
		}
		ok, isBool := v.V.(bool)
		if !isBool {
			return false, fmt.Errorf("%s is not known", p.Source())
		}
		return ok, nil
	}
	return cond
}

// equalityRE is the form of condition that kubectl can wait for by itself.
var equalityRE = regexp.MustCompile(`^result((?:\.[A-Za-z_][A-Za-z0-9_]*)+) == "([^"\\]*)"$`)

func equality(source string) *step.Equality {
	m := equalityRE.FindStringSubmatch(source)
	if m == nil {
		return nil
	}
	return &step.Equality{JSONPath: "{" + m[1] + "}", Text: m[2]}
}

// Page returns the step's action with placeholders for what the reader fills
// in: the value from which the page is made.
func (s *Step) Page() step.Action { return s.page }

// Refs returns the variables that the step's arguments and condition refer to.
func (s *Step) Refs() []string {
	var names []string
	for _, need := range s.needs {
		names = append(names, "steps."+need)
	}
	for _, p := range s.conditionsBefore() {
		for _, r := range p.Refs() {
			names = append(names, r.Name)
		}
	}
	return names
}

// conditionsBefore are the expressions that are evaluated before the arguments.
func (s *Step) conditionsBefore() []*expr.Program {
	var ps []*expr.Program
	if s.If != nil {
		ps = append(ps, s.If)
	}
	if s.Each != nil {
		ps = append(ps, s.Each.Items)
	}
	return ps
}

// Effect is how dangerous the step is.
func (s *Step) Effect() step.Effect { return s.page.Effect() }

// symbolic returns a template's text with markers.
func (s *Step) symbolic(t *expr.Template) string {
	return t.Symbolic(s.marker())
}

func (s *Step) marker() expr.Marker {
	return expr.Marker{
		Ref: func(name string) string { return mark(s.Role, name) },
		Formula: func(src string) string {
			return step.Mark(step.FormulaMark, src)
		},
	}
}

var contextRE = regexp.MustCompile(`^clusters\.([A-Za-z0-9_]+)\.context$`)

// mark returns the marker for a variable.
func mark(role, name string) string {
	const inputs, steps = "inputs.", "steps."
	switch m := contextRE.FindStringSubmatch(name); {
	case len(name) > len(inputs) && name[:len(inputs)] == inputs:
		return step.Mark(step.InputMark, name[len(inputs):])
	case len(name) > len(steps) && name[:len(steps)] == steps:
		return step.Mark(step.OutputMark, name[len(steps):])
	case name == "cluster.context" && role != "":
		return step.Mark(step.ContextMark, role)
	case m != nil:
		return step.Mark(step.ContextMark, m[1])
	}
	return step.Mark(step.FormulaMark, name)
}

// Context is the marker for the kubeconfig context of the step's role, "" for
// steps that work without a cluster.
func (s *Step) Context() string {
	if s.Role == "" {
		return ""
	}
	return step.Mark(step.ContextMark, s.Role)
}

// Lines returns what a person types for the step, its outputs included: those
// that later commands need are put into shell variables.
func (s *Step) Lines() []step.Line {
	lines := slices.Clone(s.page.Kubectl())
	if s.Each != nil && len(lines) > 0 {
		lines[0].Note = strings.TrimSpace("once for each " + s.Each.As + "\n" + lines[0].Note)
	}
	for _, o := range s.Outputs {
		if s.runbook.assigned[s.ID+"."+o.Name] {
			lines = append(lines, s.assign(o))
		}
	}
	return lines
}

// assign returns the line that puts an output into its shell variable: by a
// command where it is a plain path into the result, as text where it can be
// written down, and else as a note.
func (s *Step) assign(o Output) step.Line {
	name := s.ID + "." + o.Name
	parts := o.Value.Parts()
	if len(parts) == 1 && parts[0].Program != nil {
		path, ok := parts[0].Program.Path()
		if sel, can := s.page.(step.Selecter); ok && can && path.Root == "result" {
			line := sel.Select(path.JSONPath())
			line.Assign = name
			if path.Default != nil {
				line.Default = path.Default.Symbolic(s.marker())
			}
			return line
		}
	}
	text := s.symbolic(o.Value)
	for _, p := range step.Parts(text) {
		if p.Kind == step.FormulaMark {
			return step.Line{Note: "set " + step.ShellName(name) + " to what this gives: " + p.Name}
		}
	}
	return step.Line{Assign: name, Default: text}
}

func quoted(s string) string { return strconv.Quote(s) }

func itoa(n int) string { return strconv.Itoa(n) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
