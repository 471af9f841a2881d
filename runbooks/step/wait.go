package step

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	if _, err := w.hold(); err != nil {
		ps = append(ps, Problem{"hold", fmt.Sprintf("%q is no duration", w.Hold), "write it as 30s or 2m"})
	}
	return ps
}

func (w *wait) hold() (time.Duration, error) {
	if w.Hold == "" {
		return 0, nil
	}
	return time.ParseDuration(w.Hold)
}

func (w *wait) Permissions() []Permission { return w.permissions("list", "watch") }

func (w *wait) Kubectl() []Line {
	timeout := "--timeout=" + shortDuration(w.limit)
	line := Line{}
	switch {
	case w.Gone:
		line.Words = w.kubectl("wait", "--for=delete", timeout)
	case w.Condition != "":
		line.Words = w.kubectl("wait", "--for=condition="+w.Condition, timeout)
	case w.Until.Equals != nil:
		line.Words = w.kubectl("wait", "--for=jsonpath="+w.Until.Equals.JSONPath+"="+w.Until.Equals.Text, timeout)
	default:
		line = Line{Note: "again and again, until " + w.Until.Source, Words: w.kubectl("get", "-o", "yaml")}
	}
	if w.Hold == "" {
		return []Line{line}
	}
	again := Line{Note: "and once more after " + w.Hold + ", to see that it stayed so", Words: []string{"sleep", strings.TrimSuffix(w.Hold, "s")}}
	return []Line{line, again, {Words: line.Words}}
}

func (w *wait) Preview(ctx context.Context, r Reader) (*Preview, error) {
	found, err := w.find(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("wait for %s: %w", w.what(), err)
	}
	p := &Preview{Said: "would wait until " + w.goal()}
	if ok, _ := w.judge(ctx, objects(found)); ok {
		p.Said = "is so already: " + w.goal()
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
		return false, "it never appeared"
	case w.Condition != "":
		for _, o := range objs {
			if ok, why := conditionTrue(o, w.Condition); !ok {
				return false, o.GetName() + ": " + why
			}
		}
		return true, ""
	}
	if w.Until.Eval == nil {
		return false, ""
	}
	ok, err := w.Until.Eval(ctx, w.value(objs))
	if err != nil {
		return false, err.Error()
	}
	return ok, "not so yet: " + w.Until.Source
}

func (w *wait) remaining(objs []*unstructured.Unstructured) string {
	var names []string
	for i, o := range objs {
		if i == 10 {
			names = append(names, fmt.Sprintf("and %d more", len(objs)-i))
			break
		}
		names = append(names, strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")+" ("+held(o)+")")
	}
	return "still there: " + strings.Join(names, ", ")
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
// object as it is now, and if not, why.
func conditionTrue(o *unstructured.Unstructured, kind string) (bool, string) {
	if observed, ok, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); ok && observed < o.GetGeneration() {
		return false, fmt.Sprintf("its status is of generation %d, and it is at %d", observed, o.GetGeneration())
	}
	conds, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conds {
		m, ok := c.(map[string]any)
		if !ok || m["type"] != kind {
			continue
		}
		if g, ok := m["observedGeneration"].(int64); ok && g < o.GetGeneration() {
			return false, fmt.Sprintf("%s is of generation %d, and it is at %d", kind, g, o.GetGeneration())
		}
		if m["status"] == "True" {
			return true, ""
		}
		return false, strings.TrimSpace(fmt.Sprintf("%s is %v (%v) %v", kind, m["status"], orNone(m["reason"]), orNone(m["message"])))
	}
	return false, kind + " is not set"
}

func orNone(x any) any {
	if x == nil {
		return ""
	}
	return x
}

// errCompleted ends a wait for a pod that cannot become ready any more.
var errCompleted = errors.New("the pod has completed, and will not become ready")

func (w *wait) Run(ctx context.Context, c Cluster, h Host) (*Result, error) {
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
			return nil, fmt.Errorf("wait for %s: %w", w.what(), err)
		}
	}
	s := &waiting{wait: w, host: h, states: make([][]*unstructured.Unstructured, len(qs)), seen: make([]bool, len(qs))}
	if err := s.until(ctx, c, qs, hold); err != nil {
		return nil, fmt.Errorf("wait for %s: %w", w.what(), err)
	}
	value := w.value(s.all())
	if w.Gone {
		value = nil
	}
	return &Result{Value: value, Said: w.goal()}, nil
}

// waiting is a wait under way over one or several resources.
type waiting struct {
	wait    *wait
	host    Host
	mu      sync.Mutex
	states  [][]*unstructured.Unstructured
	seen    []bool
	missing string
	failure error
	since   time.Time // when the state began to hold; zero if it does not
	changed chan struct{}
}

// until follows every resource and ends when the state has held long enough.
func (s *waiting) until(ctx context.Context, r Reader, qs []Query, hold time.Duration) error {
	s.changed = make(chan struct{}, 1)
	follow, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	errs := make([]error, len(qs))
	for i, q := range qs {
		running.Add(1)
		go func() {
			defer running.Done()
			errs[i] = r.Follow(follow, q, func(objs []*unstructured.Unstructured) (bool, error) {
				s.update(follow, i, objs)
				return false, nil
			})
			if errors.Is(errs[i], ErrNotServed) {
				errs[i] = nil
				s.update(follow, i, nil)
			} else if follow.Err() == nil {
				s.fail(errs[i])
			}
		}()
	}
	defer func() { cancel(); running.Wait() }()
	return s.watch(ctx, hold)
}

func (s *waiting) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		s.failure = err
	}
	s.signal()
}

// signal wakes the watch; the state is under the lock.
func (s *waiting) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *waiting) all() []*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*unstructured.Unstructured
	for _, objs := range s.states {
		all = append(all, objs...)
	}
	return all
}

// update takes a new state of one resource.
func (s *waiting) update(ctx context.Context, i int, objs []*unstructured.Unstructured) {
	s.mu.Lock()
	s.states[i], s.seen[i] = objs, true
	for _, ok := range s.seen {
		if !ok {
			s.mu.Unlock()
			return
		}
	}
	s.mu.Unlock()
	all := s.all()
	ok, missing := s.wait.judge(ctx, all)
	failure := s.wait.failed(ctx, all, ok)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missing = missing
	switch {
	case failure != nil:
		s.failure = failure
	case !ok:
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = time.Now()
	}
	if !ok && s.host != nil {
		s.host.Progress(missing)
	}
	s.signal()
}

// failed tells whether the state can no longer become the one waited for.
func (w *wait) failed(ctx context.Context, objs []*unstructured.Unstructured, ok bool) error {
	if ok {
		return nil
	}
	if w.FailWhen.Eval != nil && len(objs) > 0 {
		if bad, err := w.FailWhen.Eval(ctx, w.value(objs)); err == nil && bad {
			return fmt.Errorf("it has failed: %s", w.FailWhen.Source)
		}
	}
	if w.Condition != "Ready" {
		return nil
	}
	for _, o := range objs {
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		if o.GetKind() == "Pod" && (phase == "Succeeded" || phase == "Failed") {
			return fmt.Errorf("%s: %w (%s)", o.GetName(), errCompleted, phase)
		}
	}
	return nil
}

// watch returns when the state has held for long enough, failed, or ctx ends.
func (s *waiting) watch(ctx context.Context, hold time.Duration) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.missing == "" {
				return context.Cause(ctx)
			}
			return fmt.Errorf("%s (%w)", s.missing, context.Cause(ctx))
		case <-s.changed:
		case <-timer.C:
		}
		s.mu.Lock()
		failure, since := s.failure, s.since
		s.mu.Unlock()
		switch {
		case failure != nil:
			return failure
		case since.IsZero():
			timer.Reset(time.Hour)
		case time.Since(since) >= hold:
			return nil
		default:
			left := hold - time.Since(since)
			if s.host != nil {
				s.host.Progress(fmt.Sprintf("it is so; watching that it stays so for %s", hold))
			}
			timer.Reset(left)
		}
	}
}
