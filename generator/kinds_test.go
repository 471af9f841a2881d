package generator_test

import (
	"context"

	"rutter/runbooks/step"
)

// fakeVerb stands in for a real verb in golden files, so that they change with
// the pages alone. It shows every kind of line that a page can have.
type fakeVerb struct {
	step.Target
	effect step.Effect
}

func fakeKinds() []*step.Kind {
	kind := func(name string, e step.Effect) *step.Kind {
		return &step.Kind{
			Name: name, Doc: "Does **" + name + "**. And more.", Result: "what it found",
			Example: "id: x\n" + name + ": {resource: pods}\n",
			New:     func() step.Action { return &fakeVerb{effect: e} },
		}
	}
	return []*step.Kind{kind("get", step.Reads), kind("delete", step.Destroys)}
}

func (f *fakeVerb) Effect() step.Effect { return f.effect }

func (f *fakeVerb) Permissions() []step.Permission {
	res, err := step.ParseResource(f.Resource[0])
	if err != nil {
		return nil
	}
	return []step.Permission{{Verb: "get", Resource: res, Namespace: f.Namespace}, {Verb: "list", Resource: res}}
}

func (f *fakeVerb) Kubectl() []step.Line {
	get := step.Line{Note: "a reader's note", Words: []string{"kubectl", "get", f.Resource[0], f.Name, "-l", "a in (" + f.Name + ")"}}
	if f.effect == step.Reads {
		return []step.Line{get}
	}
	return []step.Line{
		{Words: []string{"kubectl", "get", f.Resource[0]}, Each: &step.Loop{Vars: []string{"name"}, Do: []step.Line{
			{Words: []string{"kubectl", "delete", f.Resource[0], step.Mark(step.RowMark, "name")}},
		}}},
		{Words: []string{"kubectl", "apply", "-f", "-"}, Stdin: "kind: Door\nname: " + f.Name + "\n"},
	}
}

func (f *fakeVerb) Select(jsonPath string) step.Line {
	return step.Line{Words: []string{"kubectl", "get", f.Resource[0], "-o", "jsonpath=" + jsonPath}}
}

func (f *fakeVerb) Preview(context.Context, step.Reader) (*step.Preview, error) {
	return &step.Preview{}, nil
}

func (f *fakeVerb) Run(context.Context, step.Cluster, step.Host) (*step.Result, error) {
	return &step.Result{}, nil
}
