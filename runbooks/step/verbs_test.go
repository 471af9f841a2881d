package step_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rutter/runbooks/diag"
	"rutter/runbooks/expr"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
	"rutter/runbooks/step/steptest"
)

// parse reads a runbook with one step, x, whose verb is given as YAML.
func parse(verb string) (*runbook.Step, error) {
	text := `apiVersion: rutter/v1
kind: Runbook
metadata: {name: test}
title: Test
summary: A test.
clusters:
  local: {title: Yours}
inputs:
  name: {type: string, default: "", doc: A name.}
  ns: {type: string, default: demo, doc: A namespace.}
steps:
- id: x
  title: It
  timeout: 2m
` + "  " + strings.ReplaceAll(strings.TrimSpace(verb), "\n", "\n  ") + "\n"
	rb, err := runbook.Parse(diag.Source{Name: "test.yaml", Text: text}, step.Builtin())
	if err != nil {
		return nil, err
	}
	return rb.Step("x"), nil
}

// action returns the action of a verb as a run has it, with inputs such as
// name=web.
func action(t *testing.T, verb string, inputs ...string) step.Action {
	t.Helper()
	s, err := parse(verb)
	if err != nil {
		t.Fatalf("%s\n%v", verb, err)
	}
	vars := expr.Vars{"inputs.name": "", "inputs.ns": "demo"}
	for _, in := range inputs {
		name, value, _ := strings.Cut(in, "=")
		vars["inputs."+name] = value
	}
	a, unknown, err := s.Bind(t.Context(), vars)
	if err != nil || len(unknown) > 0 {
		t.Fatalf("%s\n%v %v", verb, unknown, err)
	}
	return a
}

// problems returns what is wrong with a verb's arguments, "" for nothing.
func problems(verb string) string {
	if _, err := parse(verb); err != nil {
		return err.Error()
	}
	return ""
}

// lines returns what a page shows of a verb.
func lines(t *testing.T, verb string) string {
	t.Helper()
	s, err := parse(verb)
	if err != nil {
		t.Fatalf("%s\n%v", verb, err)
	}
	return step.Shell(s.Page().Kubectl(), "")
}

var widgets = step.Resource{Plural: "widgets", Group: "example.com"}

// newCluster returns a cluster with widgets, the namespace demo and objs.
func newCluster(t *testing.T, objs ...*unstructured.Unstructured) *steptest.Cluster {
	t.Helper()
	return steptest.New(t, []steptest.ResourceDef{
		{Resource: step.Resource{Plural: "widgets", Version: "v1beta1", Group: "example.com"}, Kind: "Widget", Namespaced: true},
		{Resource: step.Resource{Plural: "gadgets", Version: "v1", Group: "example.com"}, Kind: "Gadget", Namespaced: true},
	}, append([]*unstructured.Unstructured{steptest.Object("v1", "Namespace", "", "demo", nil)}, objs...)...)
}

// widget returns one, with finalizers.
func widget(name string, finalizers ...string) *unstructured.Unstructured {
	o := steptest.Object("example.com/v1beta1", "Widget", "demo", name, map[string]any{"spec": map[string]any{"size": int64(1)}})
	o.SetFinalizers(finalizers)
	o.SetLabels(map[string]string{"app": "web"})
	return o
}

// deleting marks an object as being deleted.
func deleting(o *unstructured.Unstructured) *unstructured.Unstructured {
	o.Object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-02T03:04:05Z"
	return o
}

func with(o *unstructured.Unstructured, value any, path ...string) *unstructured.Unstructured {
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		panic(err) // a mistake in a test's table
	}
	return o
}

func ref(res step.Resource, name string) step.Ref {
	return step.Ref{Resource: res, Namespace: "demo", Name: name}
}

// shorter ends a wait soon: tests of what a wait says at its end.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// run allows an action what it declares, and runs it.
func run(ctx context.Context, t *testing.T, c *steptest.Cluster, a step.Action, h step.Host) (*step.Result, error) {
	t.Helper()
	c.Allow(a.Permissions()...)
	res, err := a.Run(ctx, c, h)
	if refused := c.Refused(); len(refused) > 0 {
		t.Errorf("it needs what it does not declare: %v", refused)
	}
	return res, err
}

// preview allows an action what it declares, and previews it. It fails the
// test if that wrote anything.
func preview(t *testing.T, c *steptest.Cluster, a step.Action) (*step.Preview, error) {
	t.Helper()
	c.Allow(a.Permissions()...)
	before := len(c.Calls())
	p, err := a.Preview(t.Context(), c)
	for _, call := range c.Calls()[before:] {
		if (call.Verb == "apply" || call.Verb == "patch" || call.Verb == "delete") && !call.DryRun {
			t.Errorf("the preview did %s", call)
		}
	}
	if refused := c.Refused(); len(refused) > 0 {
		t.Errorf("the preview needs what is not declared: %v", refused)
	}
	return p, err
}

// changes returns what a preview would do as text.
func changes(p *step.Preview) []string {
	var out []string
	for _, c := range p.Changes {
		s := string(c.Op) + " " + c.Object.String()
		if c.Note != "" {
			s += " (" + c.Note + ")"
		}
		out = append(out, s)
	}
	return out
}

// calls returns the calls of a verb such as delete.
func calls(c *steptest.Cluster, verb string) []string {
	var out []string
	for _, call := range c.Calls() {
		if call.Verb == verb && !call.DryRun {
			out = append(out, call.String())
		}
	}
	return out
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

func diff(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// contains reports that an error says all of want.
func contains(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", want)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got the error\n%v\nwant %q in it", err, w)
		}
	}
}

// host is a person who agrees, and a machine without programs.
type host struct {
	mu       sync.Mutex
	progress []string
	asked    []string
	refuse   error
	command  func(cmd step.Command) (*step.CommandResult, error)
}

func (h *host) Progress(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.progress = append(h.progress, text)
}

func (h *host) Command(_ context.Context, cmd step.Command) (*step.CommandResult, error) {
	if h.command == nil {
		return nil, fmt.Errorf("no such program: %s", cmd.Args[0])
	}
	return h.command(cmd)
}

func (h *host) Confirm(_ context.Context, question string) error {
	h.asked = append(h.asked, question)
	return h.refuse
}

func TestExamplesAreSteps(t *testing.T) {
	for _, k := range step.Builtin() {
		text := strings.Replace(k.Example, "- id: ", "- id: x_", 1)
		doc := "apiVersion: rutter/v1\nkind: Runbook\nmetadata: {name: test}\ntitle: Test\nsummary: A test.\n" +
			"clusters:\n  local: {title: Yours}\ninputs:\n  clusterID: {type: string, default: x, doc: An ID.}\n  force: {type: boolean, default: false, doc: Whether.}\nsteps:\n" + text
		if _, err := runbook.Parse(diag.Source{Name: k.Name, Text: doc}, step.Builtin()); err != nil {
			t.Errorf("example of %s: %v", k.Name, err)
		}
	}
}

// TestNothingNamedIsNotEverything gives names that turn out to be empty to the
// verbs that select: an empty name must not mean all of them.
func TestNothingNamedIsNotEverything(t *testing.T) {
	for _, verb := range []string{
		"delete: {resource: widgets.example.com, namespace: demo, name: '${inputs.name}'}",
		"delete: {resource: widgets.example.com, namespace: demo, selector: '${inputs.name}'}",
		"delete: {resource: widgets.example.com, namespace: '${inputs.name}', all: true}",
		"patch: {resource: widgets.example.com, namespace: demo, name: '${inputs.name}', patch: {spec: {size: 2}}}",
		"unfinalize: {resource: widgets.example.com, namespace: demo, name: '${inputs.name}', finalizers: [a/b]}",
		"get: {resource: widgets.example.com, namespace: demo, fieldSelector: '${inputs.name}'}",
		"wait: {resource: widgets.example.com, namespace: demo, name: '${inputs.name}', gone: true}",
	} {
		s, err := parse(verb)
		if err != nil {
			t.Fatalf("%s\n%v", verb, err)
		}
		a, _, err := s.Bind(t.Context(), expr.Vars{"inputs.name": "", "inputs.ns": "demo"})
		if a != nil || err == nil || !strings.Contains(err.Error(), "all of them") {
			t.Errorf("%s: bound to %v, %v", verb, a, err)
		}
	}
}

func contained(s, part string) bool { return strings.Contains(s, part) }

func put(t *testing.T, c *steptest.Cluster, objs ...*unstructured.Unstructured) {
	t.Helper()
	if err := c.Put(objs...); err != nil {
		t.Error(err)
	}
}

// reacting is a host that does something after each piece of progress, once
// each: first, and then what was added.
type reacting struct {
	host
	running sync.WaitGroup
	lock    sync.Mutex
	first   func()
}

// then is done after the next piece of progress.
func (r *reacting) then(do func()) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.first = do
}

func (r *reacting) Progress(text string) {
	r.host.Progress(text)
	r.lock.Lock()
	do := r.first
	r.first = nil
	r.lock.Unlock()
	if do != nil {
		r.running.Go(do)
	}
}

func (r *reacting) wait() { r.running.Wait() }

func steptestNamespace(name string) step.Ref {
	return step.Ref{Resource: step.Resource{Plural: "namespaces"}, Name: name}
}
