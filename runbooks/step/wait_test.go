package step_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rutter/runbooks/step"
	"rutter/runbooks/step/steptest"
)

// conditioned gives an object one status condition.
func conditioned(o *unstructured.Unstructured, kind, status, reason string, observed ...int64) *unstructured.Unstructured {
	c := map[string]any{"type": kind, "status": status, "reason": reason, "message": "as seen"}
	if len(observed) > 0 {
		c["observedGeneration"] = observed[0]
	}
	return with(o, []any{c}, "status", "conditions")
}

func generation(o *unstructured.Unstructured, n int64) *unstructured.Unstructured {
	o.SetGeneration(n)
	return o
}

func pod(name, phase string) *unstructured.Unstructured {
	return with(steptest.Object("v1", "Pod", "demo", name, nil), phase, "status", "phase")
}

const waitFor = "wait: {resource: widgets.example.com, namespace: demo, "

// TestWaitSettled is about states that are decided at the first look.
func TestWaitSettled(t *testing.T) {
	for _, tt := range []struct {
		name, verb string
		objs       []*unstructured.Unstructured
		said, err  string
	}{
		{name: "gone of something absent", verb: waitFor + "name: a, gone: true}", said: "widgets.example.com a in demo is gone"},
		{name: "gone of nothing selected", verb: waitFor + "selector: app=none, gone: true}", objs: []*unstructured.Unstructured{widget("a")}, said: "widgets.example.com with app=none in demo is gone"},
		{name: "gone of what is not served", verb: "wait: {resource: [things.example.com, widgets.example.com], namespace: demo, gone: true}", said: "things.example.com, widgets.example.com in demo is gone"},
		{name: "condition", verb: waitFor + "name: a, condition: ready}", objs: []*unstructured.Unstructured{conditioned(widget("a"), "Ready", "True", "Ok")}, said: "widgets.example.com a in demo is ready"},
		{name: "until", verb: waitFor + "name: a, until: result.spec.size == 1}", objs: []*unstructured.Unstructured{widget("a")}, said: "result.spec.size == 1"},
		{name: "until on a list", verb: waitFor + "until: result.size() == 0}", said: "result.size() == 0"},
		{name: "failWhen", verb: waitFor + "name: a, until: result.spec.size == 2, failWhen: result.spec.size == 1}", objs: []*unstructured.Unstructured{widget("a")}, err: "it has failed: result.spec.size == 1"},
		{name: "failWhen is not asked once it is so", verb: waitFor + "name: a, until: result.spec.size == 1, failWhen: result.spec.size == 1}", objs: []*unstructured.Unstructured{widget("a")}, said: "result.spec.size == 1"},
		{name: "completed pod", verb: "wait: {resource: pods, namespace: demo, name: p, condition: Ready}", objs: []*unstructured.Unstructured{conditioned(pod("p", "Succeeded"), "Ready", "False", "PodCompleted")}, err: "demo/p: the pod has completed (Succeeded)"},
		{name: "failed pod", verb: "wait: {resource: pods, namespace: demo, name: p, condition: ContainersReady}", objs: []*unstructured.Unstructured{pod("p", "Failed")}, err: "the pod has completed (Failed)"},
		{name: "not served", verb: "wait: {resource: things.example.com, namespace: demo, condition: Ready}", err: "things.example.com"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			res, err := run(ctx, t, newCluster(t, tt.objs...), action(t, tt.verb), &host{})
			if tt.err != "" {
				contains(t, err, tt.err)
				return
			}
			if err != nil || res.Said != tt.said {
				t.Errorf("got %+v, %v; want %q", res, err, tt.said)
			}
		})
	}
}

// TestWaitSaysWhatIsMissing lets the time end.
func TestWaitSaysWhatIsMissing(t *testing.T) {
	for _, tt := range []struct {
		name, verb string
		objs       []*unstructured.Unstructured
		want       string
	}{
		{"never there", waitFor + "name: a, condition: Ready}", nil, "wait for widgets.example.com a in demo: it never appeared"},
		{"never there with until", waitFor + "name: a, until: result.spec.size == 1}", nil, "it never appeared"},
		{"nothing selected", waitFor + "selector: app=none, condition: Ready}", nil, "it never appeared"},
		{"false", waitFor + "name: a, condition: Ready}", []*unstructured.Unstructured{conditioned(widget("a"), "Ready", "False", "Sick")}, "demo/a: Ready is False (Sick: as seen)"},
		{"one of two", waitFor + "condition: Ready}", []*unstructured.Unstructured{conditioned(widget("a"), "Ready", "True", ""), widget("b")}, "demo/b: Ready is not set"},
		{"stale condition", waitFor + "name: a, condition: Ready}", []*unstructured.Unstructured{generation(conditioned(widget("a"), "Ready", "True", "", 1), 2)}, "Ready is about generation 1, and it is at 2"},
		{"stale status", waitFor + "name: a, condition: Ready}", []*unstructured.Unstructured{generation(with(conditioned(widget("a"), "Ready", "True", ""), int64(3), "status", "observedGeneration"), 4)}, "about generation 3, and it is at 4"},
		{"cannot be judged", waitFor + "name: a, until: result.status.phase == \"Done\"}", []*unstructured.Unstructured{widget("a")}, "cannot be judged yet"},
		{"not so", waitFor + "name: a, until: result.spec.size == 2}", []*unstructured.Unstructured{widget("a")}, "not so yet: result.spec.size == 2"},
		{"not gone", waitFor + "gone: true}", []*unstructured.Unstructured{widget("a"), deleting(widget("b", "example.com/f", "example.com/g"))}, "still there: demo/a (not being deleted), demo/b (being deleted, held by example.com/f, example.com/g)"},
		{"not for long", waitFor + "name: a, until: result.spec.size == 1, hold: 1h}", []*unstructured.Unstructured{widget("a")}, "it was so, but not for 1h0m0s"},
		{
			"namespace", "wait: {resource: namespaces, name: demo, gone: true}",
			[]*unstructured.Unstructured{widget("a", "example.com/f"), deleting(steptest.Object("v1", "Namespace", "", "demo", nil))},
			"widgets.example.com has 1 resource instances; Some content in the namespace has finalizers remaining: example.com/f in 1 resource instances",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &host{}
			_, err := run(soon(t), t, newCluster(t, tt.objs...), action(t, tt.verb), h)
			contains(t, err, tt.want)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v does not say that time is over", err)
			}
			if len(h.progress) == 0 {
				t.Error("nothing was said while it waited")
			}
		})
	}
}

// TestWaitSees plays a controller: change is called after the first progress.
func TestWaitSees(t *testing.T) {
	w := ref(widgets, "a")
	for _, tt := range []struct {
		name, verb string
		objs       []*unstructured.Unstructured
		change     func(t *testing.T, c *steptest.Cluster)
		said, err  string
	}{
		{
			name: "it appears", verb: waitFor + "name: a, condition: Ready}", said: "widgets.example.com a in demo is Ready",
			change: func(t *testing.T, c *steptest.Cluster) { put(t, c, conditioned(widget("a"), "Ready", "True", "")) },
		},
		{
			name: "it goes", verb: waitFor + "name: a, gone: true}", objs: []*unstructured.Unstructured{widget("a")}, said: "widgets.example.com a in demo is gone",
			change: func(t *testing.T, c *steptest.Cluster) { c.Remove(w) },
		},
		{
			name: "it is replaced", verb: waitFor + "name: a, gone: true}", objs: []*unstructured.Unstructured{widget("a")}, said: "widgets.example.com a in demo is gone; made again: demo/a",
			change: func(t *testing.T, c *steptest.Cluster) {
				again := widget("a")
				again.SetUID("another")
				put(t, c, again)
			},
		},
		{
			name: "the resource goes", verb: waitFor + "gone: true}", objs: []*unstructured.Unstructured{widget("a")}, said: "widgets.example.com in demo is gone",
			change: func(t *testing.T, c *steptest.Cluster) { c.Unserve(widgets) },
		},
		{
			name: "the pod completes", verb: "wait: {resource: pods, namespace: demo, name: p, condition: Ready}", objs: []*unstructured.Unstructured{pod("p", "Pending")},
			err: "the pod has completed (Succeeded)",
			change: func(t *testing.T, c *steptest.Cluster) {
				c.Edit(ref(step.Resource{Plural: "pods"}, "p"), func(o *unstructured.Unstructured) { with(o, "Succeeded", "status", "phase") })
			},
		},
		{
			name: "the controller catches up", verb: waitFor + "name: a, condition: Ready}", objs: []*unstructured.Unstructured{generation(conditioned(widget("a"), "Ready", "True", "", 1), 2)},
			said: "widgets.example.com a in demo is Ready",
			change: func(t *testing.T, c *steptest.Cluster) {
				c.Edit(w, func(o *unstructured.Unstructured) { conditioned(o, "Ready", "True", "", 9) })
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			c := newCluster(t, tt.objs...)
			h := &reacting{first: func() { tt.change(t, c) }}
			res, err := run(ctx, t, c, action(t, tt.verb), h)
			h.wait()
			if tt.err != "" {
				contains(t, err, tt.err)
				return
			}
			if err != nil || res.Said != tt.said {
				t.Errorf("got %+v, %v; want %q", res, err, tt.said)
			}
		})
	}
}

func TestWaitHolds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := newCluster(t)
	h := &reacting{}
	// Gone at first, then made again, then gone for good: the wait begins anew.
	h.first = func() {
		put(t, c, widget("a"))
		h.then(func() { c.Remove(ref(widgets, "a")) })
	}
	start := time.Now()
	res, err := run(ctx, t, c, action(t, waitFor+"name: a, gone: true, hold: 300ms}"), h)
	h.wait()
	if err != nil || res.Value != nil {
		t.Fatalf("got %+v, %v", res, err)
	}
	if took := time.Since(start); took < 300*time.Millisecond {
		t.Errorf("it held for %s only", took)
	}
}

func TestWaitProblems(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"name: a, gone: true}", ""},
		{"name: a}", "want one of until, gone and condition, got 0"},
		{"name: a, gone: true, condition: Ready}", "got 2"},
		{"name: a, gone: true, hold: soon}", `"soon" is no duration`},
		{"name: a, gone: true, hold: -3s}", "no duration"},
		{"until: 'result.size('}", "test.yaml"},
	} {
		got := problems(waitFor + tt.args)
		if tt.want == "" && got != "" || !contained(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.args, got, tt.want)
		}
	}
	if got := problems("wait: {resource: [pods, secrets], namespace: demo, until: result.size() == 0}"); !contained(got, "one resource") {
		t.Errorf("until on several: %q", got)
	}
}

func TestWaitPreview(t *testing.T) {
	c := newCluster(t, deleting(widget("a", "example.com/f")))
	for verb, want := range map[string]string{
		waitFor + "name: a, gone: true}": "would wait until widgets.example.com a in demo is gone; now: still there: demo/a (being deleted, held by example.com/f)",
		waitFor + "name: b, gone: true}": "is so already: widgets.example.com b in demo is gone",
	} {
		p, err := preview(t, c, action(t, verb))
		if err != nil || p.Said != want {
			t.Errorf("%s: got %+v, %v; want %q", verb, p, err, want)
		}
	}
}
