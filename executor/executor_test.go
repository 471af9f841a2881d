package executor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"rutter/executor"
	"rutter/runbooks/diag"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
	"rutter/runbooks/step/steptest"
)

// cluster is an in-memory cluster with an identity and an access review.
type cluster struct {
	*steptest.Cluster
	uid     types.UID
	missing []step.Permission
}

func (c *cluster) Identity(context.Context) (step.Identity, error) {
	return step.Identity{Context: "ctx", Server: "https://test", User: "me", Version: "v1.37.2", UID: c.uid}, nil
}

func (c *cluster) Access(_ context.Context, perms []step.Permission) ([]step.Permission, error) {
	var out []step.Permission
	for _, p := range perms {
		if slices.Contains(c.missing, p) {
			out = append(out, p)
		}
	}
	return out, nil
}

func (c *cluster) Kubeconfig(string) (string, error) { return "", errors.New("not here") }

// journal keeps what is recorded, in order, and can be told to fail.
type journal struct {
	mu    sync.Mutex
	lines []string
	fail  string // the record that cannot be written
}

func (j *journal) add(format string, args ...any) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	if j.fail != "" && strings.HasPrefix(line, j.fail) {
		return errors.New("the disk is full")
	}
	j.lines = append(j.lines, line)
	return nil
}

func (j *journal) StepStart(s *runbook.Step) error { return j.add("start %s", s.ID) }
func (j *journal) StepEnd(r *executor.StepReport, _ map[string]any) error {
	return j.add("end %s %s", r.Step.ID, r.Status)
}
func (j *journal) Approval(step, _ string, yes bool, how string) error {
	return j.add("approval %s %t %s", step, yes, how)
}
func (j *journal) Intent(step, _ string, w step.Write, before *unstructured.Unstructured) (int, error) {
	return 1, j.add("intent %s %s, was there: %t", step, w.Ref, before != nil)
}
func (j *journal) Outcome(_ int, _ *unstructured.Unstructured, err error) error {
	return j.add("outcome %v", err)
}
func (j *journal) End(r *executor.Report) error { return j.add("run %s", r.Outcome) }

const clearBook = `apiVersion: rutter/v1
kind: Runbook
metadata: {name: clear}
title: Clear
summary: Delete the maps.
clusters:
  local: {title: Yours}
inputs:
  ns: {type: string, required: true, doc: The namespace.}
steps:
- id: find
  get: {resource: namespaces, name: '${inputs.ns}', optional: true}
  outputs: {phase: '${result.?status.?phase.orValue("none")}', name: '${result.?metadata.?name.orValue("gone")}'}
- id: drop
  approve: Delete all?
  delete: {resource: configmaps, namespace: '${steps.find.name}', all: true}
  timeout: 300ms
  rescue:
  - id: free
    unfinalize: {resource: configmaps, namespace: '${inputs.ns}', finalizers: [x.io/guard]}
finally:
- id: look
  get: {resource: configmaps, namespace: '${inputs.ns}'}
  expect:
  - {warn: size(result) > 0, message: '${size(result)} are left.', fix: Run it again.}
  - {pass: size(result) == 0, message: None is left.}
`

func book(t *testing.T, text string) *runbook.Runbook {
	t.Helper()
	rb, err := runbook.Parse(diag.Source{Name: "test.yaml", Text: text}, step.Builtin())
	if err != nil {
		t.Fatal(err)
	}
	return rb
}

func configMap(name string, finalizers ...string) *unstructured.Unstructured {
	o := steptest.Object("v1", "ConfigMap", "demo", name, nil)
	o.SetFinalizers(finalizers)
	return o
}

func demo() *unstructured.Unstructured {
	return steptest.Object("v1", "Namespace", "", "demo", map[string]any{"status": map[string]any{"phase": "Active"}})
}

type fixture struct {
	*cluster
	job     *executor.Job
	journal *journal
	opt     executor.Options
	events  []string
	told    int // of all events; not guarded, since they come one at a time
}

func setUp(t *testing.T, text string, objs ...*unstructured.Unstructured) *fixture {
	t.Helper()
	rb := book(t, text)
	c := &cluster{Cluster: steptest.New(t, nil, objs...), uid: "1"}
	c.AllowAll()
	inputs, err := rb.Resolve(map[string]string{"ns": "demo"})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{cluster: c, journal: &journal{}, job: &executor.Job{Runbook: rb, Inputs: inputs,
		Contexts: map[string]string{"local": "ctx"}, Clusters: map[string]executor.Cluster{"local": c}}}
	f.opt = executor.Options{Journal: f.journal, ApproveAll: true, Now: time.Now, Events: func(e executor.Event) {
		f.told++
		if e.End != nil {
			f.events = append(f.events, fmt.Sprintf("%s %s: %s", e.End.Step.ID, e.End.Status, e.End.Said))
		}
	}}
	return f
}

func (f *fixture) run(t *testing.T) *executor.Report {
	t.Helper()
	rep, err := executor.Run(context.Background(), f.job, f.opt)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return rep
}

func TestRunThenNothingToDo(t *testing.T) {
	f := setUp(t, clearBook, demo(), configMap("a"), configMap("b"))
	rep := f.run(t)
	if rep.Outcome != executor.OutcomeDone || rep.Writes != 2 {
		t.Errorf("got %s with %d writes (%s), want done with 2", rep.Outcome, rep.Writes, rep.Why)
	}
	want := []string{"find done: found", "drop done: 2 deleted", "look done: 0 found"}
	if diff := cmp.Diff(want, f.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := rep.Findings(); len(got) != 1 || got[0].Message != "None is left." {
		t.Errorf("findings: %v", got)
	}
	if rep = f.run(t); rep.Outcome != executor.OutcomeNothing || rep.Writes != 0 {
		t.Errorf("second run: got %s with %d writes, want nothing to do", rep.Outcome, rep.Writes)
	}
}

func TestTheJournalHasTheIntentBeforeTheWrite(t *testing.T) {
	f := setUp(t, clearBook, demo(), configMap("a"))
	f.OnWrite(func(c steptest.Call, _ *unstructured.Unstructured) {
		if last := f.journal.lines[len(f.journal.lines)-1]; !strings.HasPrefix(last, "intent drop") {
			t.Errorf("%s was done after %q", c, last)
		}
	})
	f.run(t)
	want := []string{"start find", "end find done", "start drop", "approval drop true beforehand",
		"intent drop demo/configmaps/a, was there: true", "outcome <nil>", "end drop done", "start look", "end look done", "run done"}
	if diff := cmp.Diff(want, f.journal.lines); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

func TestARunThatCannotBeRecordedChangesNothing(t *testing.T) {
	f := setUp(t, clearBook, demo(), configMap("a"))
	f.journal.fail = "intent"
	_, err := executor.Run(context.Background(), f.job, f.opt)
	if err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("got %v, want the journal's error", err)
	}
	if n := len(f.Objects(step.Resource{Plural: "configmaps"})); n != 1 {
		t.Errorf("%d config maps are left, want 1: it was deleted without a record", n)
	}
}

func TestAFailedStepIsRescued(t *testing.T) {
	f := setUp(t, clearBook, demo(), configMap("a", "x.io/guard"), configMap("b"))
	rep := f.run(t)
	if rep.Outcome != executor.OutcomeDone {
		t.Fatalf("got %s (%s), want done", rep.Outcome, rep.Why)
	}
	want := []string{"find done: found", "drop rescued: 2 deleted", "free done: 1 freed", "look done: 0 found"}
	if diff := cmp.Diff(want, f.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if why := rep.Steps[1].Why; !strings.Contains(why, "demo/configmaps/a: being deleted, held by x.io/guard") || !strings.Contains(why, "time of 300ms is over") {
		t.Errorf("the failure does not say what remains: %q", why)
	}
}

func TestARescueThatFailsEndsTheRun(t *testing.T) {
	f := setUp(t, clearBook, demo(), configMap("a", "x.io/guard", "x.io/other"))
	rep := f.run(t)
	if rep.Outcome != executor.OutcomeFailed || !strings.Contains(rep.Why, "step free: unfinalize") || !strings.Contains(rep.Why, "x.io/other") {
		t.Errorf("got %s: %s", rep.Outcome, rep.Why)
	}
	if rep.Steps[1].Status != executor.Failed {
		t.Errorf("the step whose rescue failed is %s, want failed", rep.Steps[1].Status)
	}
	if last := f.events[len(f.events)-1]; last != "look done: 1 found" {
		t.Errorf("the steps at the end were not done: %q", last)
	}
}

func TestDeclinedChangesNothingAndStillCleansUp(t *testing.T) {
	f := setUp(t, clearBook, demo(), configMap("a"))
	f.opt.ApproveAll = false
	var asked executor.Question
	f.opt.Ask = func(_ context.Context, q executor.Question) (bool, error) { asked = q; return false, nil }
	rep := f.run(t)
	if rep.Outcome != executor.OutcomeDeclined || rep.Writes != 0 {
		t.Errorf("got %s with %d writes", rep.Outcome, rep.Writes)
	}
	if asked.Text != "Delete all?" || len(asked.Changes) != 1 || asked.Changes[0].Object.Name != "a" {
		t.Errorf("the question does not show what would change: %+v", asked)
	}
	f.opt.Ask = nil
	if rep = f.run(t); rep.Outcome != executor.OutcomeDeclined || !strings.Contains(rep.Why, "nobody to ask") {
		t.Errorf("without a person: got %s (%s), want declined", rep.Outcome, rep.Why)
	}
}

func TestNothingIsAskedWhereNothingWouldChange(t *testing.T) {
	f := setUp(t, clearBook, demo())
	f.opt.ApproveAll = false
	f.opt.Ask = func(context.Context, executor.Question) (bool, error) {
		t.Error("asked for approval of nothing")
		return false, nil
	}
	if rep := f.run(t); rep.Outcome != executor.OutcomeNothing {
		t.Errorf("got %s (%s), want nothing to do", rep.Outcome, rep.Why)
	}
}

func TestAnInterruptEndsWaitsAndRunsTheStepsAtTheEnd(t *testing.T) {
	f := setUp(t, strings.Replace(clearBook, "timeout: 300ms", "timeout: 1m", 1), demo(), configMap("a", "x.io/guard"))
	soft, interrupt := context.WithCancel(context.Background())
	f.opt.Interrupt = soft
	f.OnWrite(func(steptest.Call, *unstructured.Unstructured) { interrupt() })
	started := time.Now()
	rep := f.run(t)
	if rep.Outcome != executor.OutcomeInterrupted || time.Since(started) > 30*time.Second {
		t.Errorf("got %s (%s) after %s", rep.Outcome, rep.Why, time.Since(started))
	}
	want := []string{"find done: found", "drop interrupted: 1 deleted", "look done: 1 found"}
	if diff := cmp.Diff(want, f.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestTheDeadlineLeavesTimeForTheStepsAtTheEnd(t *testing.T) {
	f := setUp(t, strings.Replace(strings.Replace(clearBook, "timeout: 300ms", "timeout: 1m", 1), "steps:", "deadline: 200ms\nsteps:", 1), demo(), configMap("a", "x.io/guard"))
	rep := f.run(t)
	if rep.Outcome != executor.OutcomeFailed || !strings.Contains(rep.Why, "deadline of 200ms is over") {
		t.Errorf("got %s: %s", rep.Outcome, rep.Why)
	}
	if last := f.events[len(f.events)-1]; last != "look done: 1 found" {
		t.Errorf("the steps at the end were not done: %v", f.events)
	}
}

func TestPreflight(t *testing.T) {
	f := setUp(t, clearBook, demo())
	del := step.Permission{Verb: "delete", Resource: step.Resource{Plural: "configmaps"}, Namespace: "demo"}
	free := step.Permission{Verb: "patch", Resource: step.Resource{Plural: "configmaps"}, Namespace: "demo"}
	f.missing = []step.Permission{del, free}
	check, err := executor.Preflight(context.Background(), f.job)
	if err != nil {
		t.Fatal(err)
	}
	want := []executor.MissingPermission{{Role: "local", Permission: del, Steps: []string{"drop"}}, {Role: "local", Permission: free, Steps: []string{"free"}}}
	if diff := cmp.Diff(want, check.Missing); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	for _, c := range f.Calls() {
		if c.Verb == "delete" || c.Verb == "patch" || c.Verb == "apply" {
			t.Errorf("the preflight did %s", c)
		}
	}
}

func TestPreflightTellsOneClusterFromTwo(t *testing.T) {
	f := setUp(t, `apiVersion: rutter/v1
kind: Runbook
metadata: {name: two}
title: Two
summary: Look at both.
clusters:
  local: {title: Yours}
  peer: {title: Theirs, distinctFrom: local}
inputs:
  ns: {type: string, doc: Unused.}
steps:
- {id: a, cluster: local, get: {resource: nodes}}
- {id: b, cluster: peer, get: {resource: nodes}}
`)
	check := func() string {
		t.Helper()
		c, err := executor.Preflight(context.Background(), f.job)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(c.Problems, "; ")
	}
	if got := check(); !strings.Contains(got, "no context is bound to the role peer") {
		t.Errorf("with a role unbound: %q", got)
	}
	other := &cluster{Cluster: f.Cluster, uid: "1"}
	f.job.Clusters["peer"], f.job.Contexts["peer"] = other, "also-ctx"
	if got := check(); !strings.Contains(got, "are the same cluster") {
		t.Errorf("with two contexts of one cluster: %q", got)
	}
	other.uid = "2"
	if got := check(); got != "" {
		t.Errorf("with two clusters: %q", got)
	}
}

func TestAStepCannotWriteWhatItDidNotDeclare(t *testing.T) {
	sneaky := &step.Kind{Name: "sneak", New: func() step.Action { return new(sneak) }}
	rb, err := runbook.Parse(diag.Source{Name: "t.yaml", Text: strings.Split(clearBook, "steps:")[0] + "steps:\n- {id: a, sneak: {}}\n"}, []*step.Kind{sneaky})
	if err != nil {
		t.Fatal(err)
	}
	f := setUp(t, clearBook, demo(), configMap("a"))
	f.job.Runbook = rb
	rep := f.run(t)
	if rep.Outcome != executor.OutcomeFailed || !strings.Contains(rep.Why, "did not declare that it would delete configmaps a in namespace demo") {
		t.Errorf("got %s: %s", rep.Outcome, rep.Why)
	}
	if len(f.Objects(step.Resource{Plural: "configmaps"})) != 1 {
		t.Error("it was deleted all the same")
	}
}

// sneak is an action that deletes what it did not declare.
type sneak struct{}

func (*sneak) Effect() step.Effect            { return step.Changes }
func (*sneak) Permissions() []step.Permission { return nil }
func (*sneak) Kubectl() []step.Line           { return nil }
func (*sneak) Preview(context.Context, step.Reader) (*step.Preview, error) {
	return &step.Preview{}, nil
}
func (*sneak) Run(ctx context.Context, c step.Cluster, _ step.Host) (*step.Result, error) {
	_, err := c.Do(ctx, step.Write{Ref: step.Ref{Resource: step.Resource{Plural: "configmaps"}, Namespace: "demo", Name: "a"}, Delete: &step.DeleteWrite{}})
	return nil, err
}

func TestPlanCarriesWhatEarlierStepsWouldDo(t *testing.T) {
	text := strings.Replace(clearBook, "  rescue:\n  - id: free\n    unfinalize", "- id: free\n  cluster: local\n  unfinalize", 1)
	f := setUp(t, text, demo(), configMap("a", "x.io/guard"), configMap("b"))
	plan, err := executor.NewPlan(context.Background(), f.job)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range plan.Steps {
		line := fmt.Sprintf("%s: %s, %s", p.Step.ID, p.Verdict, p.Said)
		for _, c := range p.Changes {
			line += fmt.Sprintf(" [%s %s]", c.Op, c.Object)
		}
		got = append(got, line)
	}
	want := []string{
		"find: would run, found",
		"drop: would run, would delete 2 [delete demo/configmaps/a] [delete demo/configmaps/b]",
		"free: would run, would free 1 [update demo/configmaps/a]",
		"look: would run, 0 found",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	for _, c := range f.Calls() {
		if !c.DryRun && (c.Verb == "delete" || c.Verb == "patch" || c.Verb == "apply") {
			t.Errorf("the plan did %s", c)
		}
	}
	if n := len(f.Objects(step.Resource{Plural: "configmaps"})); n != 2 {
		t.Errorf("%d config maps are left after a plan, want 2", n)
	}
}

func TestPlanCarriesUnknowns(t *testing.T) {
	f := setUp(t, strings.Split(clearBook, "steps:")[0]+`steps:
- id: ask
  command: {args: [prog, '${inputs.ns}'], effect: runs here}
  outputs: {name: '${result.stdout}', fixed: '${"a" + inputs.ns}'}
- id: use
  delete: {resource: configmaps, namespace: '${steps.ask.name}', all: true}
- id: known
  cluster: local
  get: {resource: namespaces, name: '${steps.ask.fixed}', optional: true}
- id: maybe
  if: steps.ask.name == "x"
  get: {resource: namespaces}
- id: either
  if: steps.ask.fixed == "ademo" || steps.ask.name == "x"
  get: {resource: namespaces}
- id: never
  if: steps.ask.fixed == "b" && steps.ask.name == "x"
  get: {resource: namespaces}
`, demo())
	plan, err := executor.NewPlan(context.Background(), f.job)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range plan.Steps {
		got = append(got, fmt.Sprintf("%s: %s (%s)", p.Step.ID, p.Verdict, p.Why))
	}
	want := []string{
		"ask: would run ()",
		"use: decided at run time (needs steps.ask.name)",
		"known: would run ()",
		`maybe: undecided (steps.ask.name == "x")`,
		"either: would run ()",
		`never: skipped (steps.ask.fixed == "b" && steps.ask.name == "x")`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestPlanStopsWhereTheRunWould(t *testing.T) {
	f := setUp(t, strings.Replace(clearBook, "- id: drop", "- id: guard\n  check: {}\n  expect: [{fail: 'steps.find.phase == \"Active\"', message: It is in use., fix: Wait.}]\n- id: drop", 1), demo(), configMap("a"))
	plan, err := executor.NewPlan(context.Background(), f.job)
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Steps[1]; got.Verdict != executor.WouldFail || got.Why != "It is in use." {
		t.Errorf("guard: %s (%s)", got.Verdict, got.Why)
	}
	if got := plan.Steps[2]; got.Verdict != executor.NotReached || len(got.Changes) > 0 {
		t.Errorf("drop: %s with %d changes", got.Verdict, len(got.Changes))
	}
	rep := f.run(t)
	if rep.Outcome != executor.OutcomeFailed || rep.Writes != 0 || rep.Why != "step guard: It is in use." {
		t.Errorf("run: %s, %d writes, %s", rep.Outcome, rep.Writes, rep.Why)
	}
}

// sameVersion answers a patch as the API server does that removes an object
// with its last finalizer: with the version that the object had before.
type sameVersion struct{ *cluster }

func (c sameVersion) Do(ctx context.Context, w step.Write) (*unstructured.Unstructured, error) {
	after, err := c.cluster.Do(ctx, w)
	if after != nil && w.Before != nil {
		after.SetResourceVersion(w.Before.GetResourceVersion())
	}
	return after, err
}

func TestFreeingIsAChange(t *testing.T) {
	held := configMap("a", "x.io/guard")
	f := setUp(t, strings.Split(clearBook, "steps:")[0]+"steps:\n- id: free\n  unfinalize: {resource: configmaps, namespace: '${inputs.ns}', finalizers: [x.io/guard]}\n", demo(), held)
	if _, err := f.Do(context.Background(), step.Write{Ref: step.Ref{Resource: step.Resource{Plural: "configmaps"}, Namespace: "demo", Name: "a"}, Delete: &step.DeleteWrite{}}); err != nil {
		t.Fatal(err)
	}
	f.job.Clusters["local"] = sameVersion{f.cluster}
	if rep := f.run(t); rep.Outcome != executor.OutcomeDone || rep.Writes != 1 {
		t.Errorf("got %s with %d writes, want done with 1", rep.Outcome, rep.Writes)
	}
}

func TestEventsComeOneAtATime(t *testing.T) {
	objs := []*unstructured.Unstructured{demo()}
	for i := range 200 {
		objs = append(objs, configMap(fmt.Sprint("m", i)))
	}
	f := setUp(t, strings.Replace(clearBook, "timeout: 300ms", "timeout: 1m", 1), objs...)
	if rep := f.run(t); rep.Writes != 200 || f.told < 200 {
		t.Errorf("%d writes and %d events", rep.Writes, f.told)
	}
}

func TestARepeatedStepDoesEachItem(t *testing.T) {
	f := setUp(t, strings.Split(clearBook, "steps:")[0]+`steps:
- id: list
  get: {resource: configmaps, namespace: '${inputs.ns}'}
  outputs: {names: '${result.filter(m, m.metadata.name != "b").map(m, {"name": m.metadata.name})}'}
- id: each
  forEach: {items: steps.list.names, as: map}
  approve: Delete them?
  delete: {resource: configmaps, namespace: '${inputs.ns}', name: '${map.name}'}
  outputs: {count: '${result.size()}'}
  expect: [{warn: steps.each.count == 2, message: 'It was done ${steps.each.count} times.'}]
`, demo(), configMap("a"), configMap("b"), configMap("c"))
	plan, err := executor.NewPlan(context.Background(), f.job)
	if err != nil {
		t.Fatal(err)
	}
	if p := plan.Steps[1]; len(p.Changes) != 2 || p.Said != "2 × would delete 1" {
		t.Errorf("plan: %s, %v", p.Said, p.Changes)
	}
	f.missing = []step.Permission{{Verb: "delete", Resource: step.Resource{Plural: "configmaps"}, Namespace: "demo", Name: "c"}}
	if check, err := executor.Preflight(context.Background(), f.job); err != nil || len(check.Missing) != 1 {
		t.Errorf("preflight: %v, %v; want the permission of an item to be missing", check, err)
	}
	rep := f.run(t)
	if rep.Writes != 2 || rep.Steps[1].Said != "2 × 1 deleted" || len(rep.Findings()) != 1 {
		t.Errorf("run: %d writes, %q, %v", rep.Writes, rep.Steps[1].Said, rep.Findings())
	}
	if rep = f.run(t); rep.Outcome != executor.OutcomeNothing || rep.Steps[1].Said != "no items" {
		t.Errorf("again: %s, %q", rep.Outcome, rep.Steps[1].Said)
	}
}

func TestDiffMasksSecrets(t *testing.T) {
	secret := func(value string) *unstructured.Unstructured {
		return steptest.Object("v1", "Secret", "demo", "s", map[string]any{"data": map[string]any{"k": value}, "type": "Opaque"})
	}
	d := executor.Diff(step.Change{Op: step.OpUpdate, Before: secret("aHVudGVyMg=="), After: secret("c2VzYW1l")})
	if strings.Contains(d, "aHVudGVyMg") || strings.Contains(d, "c2VzYW1l") {
		t.Errorf("the diff shows a secret:\n%s", d)
	}
}
