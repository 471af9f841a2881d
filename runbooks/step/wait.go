package step

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Wait returns the verb that waits for objects.
func Wait() *Kind {
	return &Kind{
		Name: "wait",
		Doc: "Waits until a condition holds: `until` an expression over the result, `gone` (nothing matches any more), " +
			"or a status `condition` that is True for the current generation.\n\n" +
			"`failWhen` ends the wait at once with an error. With `hold` the state must last that long without a break. " +
			"An object that is not there yet is waited for; one that is absent is gone. " +
			"When the step's time ends it says what was still missing.",
		Example: `- id: ready
  title: Wait for the Deployment
  wait: {resource: deployments.apps, namespace: demo, name: web, condition: Available}
  timeout: 2m
`,
		Result: "the object, or the list of objects, as last seen; null if it is gone",
		New:    func() Action { return new(wait) },
	}
}

type wait struct {
	Target
	Timeout
	Until     Condition `yaml:"until" doc:"CEL over result: the wait is over when it holds."`
	FailWhen  Condition `yaml:"failWhen" doc:"CEL over result: the wait has failed when it holds."`
	Gone      bool      `yaml:"gone" doc:"Wait until nothing matches."`
	Condition string    `yaml:"condition" doc:"Wait until the status condition of this type is True."`
	Hold      string    `yaml:"hold" doc:"How long it must stay that way, such as 30s."`
}

func (w *wait) Effect() Effect { return Reads }

func (w *wait) Check() []Problem {
	ps := w.check()
	n := 0
	for _, set := range []bool{w.Until.Source != "", w.Gone, w.Condition != ""} {
		if set {
			n++
		}
	}
	if n != 1 {
		ps = append(ps, Problem{"", fmt.Sprintf("want one of until, gone and condition, got %d", n), "say what to wait for"})
	}
	if len(w.Resource) > 1 && (w.Until.Source != "" || w.FailWhen.Source != "") {
		ps = append(ps, Problem{"resource", "until and failWhen look at one resource, not a list", "use one step for each resource"})
	}
	if _, err := w.hold(); err != nil && !HasMark(w.Hold) {
		ps = append(ps, Problem{"hold", fmt.Sprintf("%q is no duration", w.Hold), "write it as 30s or 2m"})
	}
	return ps
}

func (w *wait) hold() (time.Duration, error) {
	if w.Hold == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(w.Hold)
	if err == nil && d < 0 {
		err = fmt.Errorf("hold: %q is negative", w.Hold)
	}
	return d, err
}

// Permissions are those to follow the target, and to read it for a preview.
func (w *wait) Permissions() []Permission {
	if w.Name != "" {
		return w.permissions("get", "list", "watch")
	}
	return w.permissions("list", "watch")
}

func (w *wait) Kubectl() []Line {
	lines := w.waitLines()
	if w.FailWhen.Source != "" && len(lines) > 0 {
		lines[0].Note = strings.TrimPrefix(lines[0].Note+"\ngive up if "+w.FailWhen.Source, "\n")
	}
	hold, err := w.hold()
	if hold == 0 || err != nil {
		return lines
	}
	again := Line{Note: "once more after " + w.Hold + ", to see that it stayed so", Words: []string{"sleep", strconv.FormatInt(int64(hold.Seconds()), 10)}}
	return append(append(lines, again), w.waitLines()...)
}

// waitLines are the commands that wait, or look where kubectl cannot wait.
func (w *wait) waitLines() []Line {
	flags := []string{"--timeout=" + shortDuration(w.limit)}
	if !w.narrowed() {
		flags = append(flags, "--all")
	}
	switch {
	case w.Gone:
		return w.lines("wait", append([]string{"--for=delete"}, flags...)...)
	case w.Condition != "":
		return w.lines("wait", append([]string{"--for=create", "--for=condition=" + w.Condition}, flags...)...)
	case w.kubectlCanWait():
		path := "--for=jsonpath=" + w.Until.Equals.JSONPath + "=" + w.Until.Equals.Text
		return w.lines("wait", append([]string{"--for=create", path}, flags...)...)
	}
	lines := w.lines("get", "-o", "yaml")
	if len(lines) > 0 {
		lines[0].Note = "again and again, until " + w.Until.Source
	}
	return lines
}

// kubectlCanWait reports whether kubectl can wait for what until says: for a
// named object, and for a text that it takes as it is.
func (w *wait) kubectlCanWait() bool {
	eq := w.Until.Equals
	return eq != nil && w.Name != "" && eq.Text != "" && !strings.Contains(eq.Text, "=") && strings.Trim(eq.Text, " '\"") == eq.Text
}

func (w *wait) Preview(ctx context.Context, r Reader) (*Preview, error) {
	if err := refuse(w); err != nil {
		return nil, fmt.Errorf("wait: %w", err)
	}
	found, err := w.find(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("wait for %s: %w", w.what(), err)
	}
	p := &Preview{Said: "is so already: " + w.goal()}
	if ok, missing := w.judge(ctx, objects(found)); !ok {
		p.Said = "would wait until " + w.goal() + "; now: " + missing
	}
	return p, nil
}

func objects(found []Found) []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, len(found))
	for i, f := range found {
		out[i] = f.Object
	}
	return out
}

func (w *wait) goal() string {
	switch {
	case w.Gone:
		return w.what() + " is gone"
	case w.Condition != "":
		return w.what() + " is " + w.Condition
	}
	return w.Until.Source
}

// judge tells whether the state is the one waited for, and if not, what is
// missing. An error ends the wait.
func (w *wait) judge(ctx context.Context, objs []*unstructured.Unstructured) (ok bool, missing string) {
	switch {
	case w.Gone:
		if len(objs) == 0 {
			return true, ""
		}
		return false, w.remaining(objs)
	case len(objs) == 0 && (w.Name != "" || w.Condition != ""):
		return false, neverAppeared
	case w.Condition != "":
		var missing []string
		for _, o := range objs {
			if ok, why := conditionTrue(o, w.Condition); !ok {
				missing = append(missing, nameOf(o)+": "+why)
			}
		}
		return len(missing) == 0, strings.Join(someOf(missing, 10), "; ")
	}
	if w.Until.Eval == nil {
		return false, "nobody can judge " + w.Until.Source
	}
	ok, err := w.Until.Eval(ctx, w.value(objs))
	if err != nil {
		return false, "it cannot be judged yet: " + err.Error()
	}
	return ok, "not so yet: " + w.Until.Source
}

// neverAppeared is what is missing where there is no object.
const neverAppeared = "it never appeared"

func (w *wait) remaining(objs []*unstructured.Unstructured) string {
	names := make([]string, len(objs))
	for i, o := range objs {
		names[i] = nameOf(o) + " (" + held(o) + ")"
	}
	return "still there: " + strings.Join(someOf(names, 20), ", ")
}

// nameOf names an object in a sentence about one resource.
func nameOf(o *unstructured.Unstructured) string {
	return strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
}

func (w *wait) value(objs []*unstructured.Unstructured) any {
	if w.Name != "" {
		if len(objs) == 0 {
			return nil
		}
		return objs[0].Object
	}
	list := make([]any, len(objs))
	for i, o := range objs {
		list[i] = o.Object
	}
	return list
}

// conditionTrue reports whether a status condition is True and about the
// object as it is now, and if not, why. As kubectl does, it takes the first
// condition of the type.
func conditionTrue(o *unstructured.Unstructured, kind string) (bool, string) {
	for _, c := range conditionsOf(o) {
		if !strings.EqualFold(c.kind, kind) {
			continue
		}
		if !c.dated {
			c.observed, c.dated, _ = unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		}
		if c.dated && c.observed < o.GetGeneration() {
			return false, fmt.Sprintf("%s is about generation %d, and it is at %d: its controller has not looked yet", c.kind, c.observed, o.GetGeneration())
		}
		return strings.EqualFold(c.status, "True"), c.String()
	}
	return false, kind + " is not set"
}

// failed tells whether the state can no longer become the one waited for.
func (w *wait) failed(ctx context.Context, objs []*unstructured.Unstructured) error {
	if w.FailWhen.Eval != nil && len(objs) > 0 {
		if bad, err := w.FailWhen.Eval(ctx, w.value(objs)); err == nil && bad {
			return fmt.Errorf("it has failed: %s", w.FailWhen.Source)
		}
	}
	if w.Condition == "" {
		return nil
	}
	for _, o := range objs {
		if why := w.hopeless(o); why != "" {
			return fmt.Errorf("%s: %s, and %s will not become True", nameOf(o), why, w.Condition)
		}
	}
	return nil
}

// hopeless says why an object has come to an end at which the condition is not
// True: a pod or a job that is over.
func (w *wait) hopeless(o *unstructured.Unstructured) string {
	if ok, _ := conditionTrue(o, w.Condition); ok {
		return ""
	}
	switch o.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		if phase == "Succeeded" || phase == "Failed" {
			return "the pod has completed (" + phase + ")"
		}
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		for _, c := range conditionsOf(o) {
			if (c.kind == "Failed" || c.kind == "Complete") && c.status == "True" {
				return "the job is over: " + c.String()
			}
		}
	}
	return ""
}

func (w *wait) Run(ctx context.Context, c Cluster, h Host) (*Result, error) {
	objs, err := w.run(ctx, c, h)
	if err != nil {
		return nil, fmt.Errorf("wait for %s: %w", w.what(), err)
	}
	res := &Result{Value: w.value(objs), Said: w.goal()}
	if w.Gone {
		res.Value = nil
		if len(objs) > 0 {
			res.Said += "; made again: " + firstOf(namesOf(objs))
		}
	}
	return res, nil
}

func namesOf(objs []*unstructured.Unstructured) []string {
	names := make([]string, len(objs))
	for i, o := range objs {
		names[i] = nameOf(o)
	}
	return names
}

// run waits, and returns the objects as they are at the end.
func (w *wait) run(ctx context.Context, c Cluster, h Host) ([]*unstructured.Unstructured, error) {
	if err := refuse(w); err != nil {
		return nil, err
	}
	qs, err := w.queries()
	if err != nil {
		return nil, err
	}
	hold, err := w.hold()
	if err != nil {
		return nil, err
	}
	for _, q := range qs {
		if err := w.scope(ctx, c, q.Resource); err != nil && !(errors.Is(err, ErrNotServed) && (w.Gone || w.IfServed)) {
			return nil, err
		}
	}
	return newVigil(w, h, len(qs), hold).keep(ctx, c, qs)
}
