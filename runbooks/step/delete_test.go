package step_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"rutter/runbooks/step"
	"rutter/runbooks/step/steptest"
)

const deleteAll = "delete: {resource: widgets.example.com, namespace: demo, all: true}"

func lists(res *step.Result, keys ...string) map[string][]any {
	out := map[string][]any{}
	m, _ := res.Value.(map[string]any)
	for _, k := range keys {
		if l, _ := m[k].([]any); len(l) > 0 {
			out[k] = l
		}
	}
	return out
}

func TestDelete(t *testing.T) {
	a, b := "demo/widgets.example.com/a", "demo/widgets.example.com/b"
	for _, tt := range []struct {
		name, verb string
		objs       []*unstructured.Unstructured
		controller func(c *steptest.Cluster, call steptest.Call) // after each write
		before     func(c *steptest.Cluster) error               // before the first delete
		said       string
		want       map[string][]any
		deletes    []string
		err        string
	}{
		{name: "nothing", verb: deleteAll, said: "nothing to delete", want: map[string][]any{}},
		{name: "absent by name", verb: "delete: {resource: widgets.example.com, namespace: demo, name: a}", said: "nothing to delete", want: map[string][]any{}},
		{
			name: "two", verb: deleteAll, objs: []*unstructured.Unstructured{widget("a"), widget("b")}, said: "2 deleted",
			want: map[string][]any{"deleted": {a, b}}, deletes: []string{"delete " + a, "delete " + b},
		},
		{
			name: "by label", verb: "delete: {resource: widgets.example.com, namespace: demo, selector: app=none}", objs: []*unstructured.Unstructured{widget("a")},
			said: "nothing to delete", want: map[string][]any{},
		},
		{
			name: "without waiting", verb: "delete: {resource: widgets.example.com, namespace: demo, name: a, wait: false}",
			objs: []*unstructured.Unstructured{widget("a", "example.com/f")}, said: "1 deleted", want: map[string][]any{"deleted": {a}}, deletes: []string{"delete " + a},
		},
		{
			name: "being deleted already", verb: "delete: {resource: widgets.example.com, namespace: demo, all: true, wait: false}",
			objs: []*unstructured.Unstructured{deleting(widget("a", "example.com/f")), widget("b")},
			said: "1 deleted, 1 being deleted before", want: map[string][]any{"deleted": {b}, "already": {a}}, deletes: []string{"delete " + b},
		},
		{
			name: "sooner", verb: "delete: {resource: pods, namespace: demo, all: true, gracePeriod: 0, wait: false}",
			objs: []*unstructured.Unstructured{
				with(deleting(with(pod("slow", "Running"), []any{"example.com/f"}, "metadata", "finalizers")), int64(30), "metadata", "deletionGracePeriodSeconds"),
				with(deleting(with(pod("now", "Running"), []any{"example.com/f"}, "metadata", "finalizers")), int64(0), "metadata", "deletionGracePeriodSeconds"),
			},
			said: "1 deleted, 1 being deleted before", want: map[string][]any{"deleted": {"demo/pods/slow"}, "already": {"demo/pods/now"}}, deletes: []string{"delete demo/pods/slow"},
		},
		{
			name: "a controller makes it again", verb: deleteAll, objs: []*unstructured.Unstructured{widget("a")},
			controller: func(c *steptest.Cluster, call steptest.Call) { _ = c.Put(widget(call.Ref.Name)) },
			said:       "1 deleted, and a controller made again: " + a, want: map[string][]any{"deleted": {a}, "recreated": {a}}, deletes: []string{"delete " + a},
		},
		{
			name: "replaced before", verb: deleteAll, objs: []*unstructured.Unstructured{widget("a")},
			before: func(c *steptest.Cluster) error {
				again := widget("a")
				again.SetUID("another")
				return c.Put(again)
			},
			said: "and a controller made again: " + a, want: map[string][]any{"recreated": {a}}, deletes: []string{"delete " + a},
		},
		{
			name: "gone before", verb: deleteAll, objs: []*unstructured.Unstructured{widget("a")},
			before: func(c *steptest.Cluster) error { c.Remove(ref(widgets, "a")); return nil },
			said:   "1 being deleted before", want: map[string][]any{"already": {a}}, deletes: []string{"delete " + a},
		},
		{
			name: "conflict", verb: deleteAll, objs: []*unstructured.Unstructured{widget("a")},
			before: func(*steptest.Cluster) error {
				return apierrors.NewConflict(schema.GroupResource{Resource: "widgets"}, "a", errors.New("try again"))
			},
			said: "1 deleted", want: map[string][]any{"deleted": {a}}, deletes: []string{"delete " + a, "delete " + a},
		},
		{
			name: "forbidden", verb: deleteAll, objs: []*unstructured.Unstructured{widget("a")},
			before: func(*steptest.Cluster) error {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "widgets"}, "a", errors.New("no"))
			},
			want: map[string][]any{}, err: "delete widgets.example.com in demo:", deletes: []string{"delete " + a},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			c := newCluster(t, tt.objs...)
			if tt.controller != nil {
				c.OnWrite(func(call steptest.Call, _ *unstructured.Unstructured) { tt.controller(c, call) })
			}
			var once sync.Once
			c.Fail(func(call steptest.Call) (err error) {
				if call.Verb == "delete" && tt.before != nil {
					once.Do(func() { err = tt.before(c) })
				}
				return err
			})
			res, err := run(ctx, t, c, action(t, tt.verb), &host{})
			if tt.err != "" {
				contains(t, err, tt.err)
			} else if err != nil || res.Said != tt.said {
				t.Errorf("got %+v, %v; want %q", res, err, tt.said)
			}
			diff(t, "result", tt.want, lists(res, "deleted", "already", "recreated"))
			diff(t, "deletes", tt.deletes, sorted(calls(c, "delete")))
		})
	}
}

func TestDeleteSendsWhatItIsTold(t *testing.T) {
	c := newCluster(t, widget("a"))
	uid := c.Object(ref(widgets, "a")).GetUID()
	verb := "delete: {resource: widgets.example.com, namespace: demo, name: a, propagation: Orphan, gracePeriod: 7}"
	if _, err := run(t.Context(), t, c, action(t, verb), &host{}); err != nil {
		t.Fatal(err)
	}
	for _, call := range c.Calls() {
		if d := call.Write.Delete; call.Verb == "delete" {
			if call.Ref.UID != uid || d.Propagation != "Orphan" || *d.GraceSeconds != 7 || call.Write.Before == nil {
				t.Errorf("got %+v of %v", d, call.Ref)
			}
		}
	}
}

func TestDeleteSaysWhatRemains(t *testing.T) {
	c := newCluster(t, widget("a", "example.com/f"), widget("b"), deleting(widget("c", "example.com/g", "example.com/h")))
	h := &host{}
	res, err := run(soon(t), t, c, action(t, deleteAll), h)
	contains(t, err, "delete widgets.example.com in demo: still there",
		"demo/widgets.example.com/a: being deleted, held by example.com/f",
		"demo/widgets.example.com/c: being deleted, held by example.com/g, example.com/h")
	if !errors.Is(err, context.DeadlineExceeded) || contained(err.Error(), "widgets.example.com/b") {
		t.Errorf("got %v", err)
	}
	if res.Said != "2 deleted, 1 being deleted before" {
		t.Errorf("said %q", res.Said)
	}
	if len(h.progress) == 0 || !contained(h.progress[len(h.progress)-1], "example.com/f") {
		t.Errorf("progress %q does not say what it waits for", h.progress)
	}
}

// TestDeleteIsOneFollow deletes many and looks at what that costs.
func TestDeleteIsOneFollow(t *testing.T) {
	var objs []*unstructured.Unstructured
	for i := range 200 {
		objs = append(objs, widget(fmt.Sprintf("w%03d", i)))
	}
	c := newCluster(t, objs...)
	res, err := run(t.Context(), t, c, action(t, deleteAll), &host{})
	if err != nil || res.Said != "200 deleted" {
		t.Fatalf("got %+v, %v", res, err)
	}
	if l, w, d := len(calls(c, "list")), len(calls(c, "watch")), len(calls(c, "delete")); l != 1 || w != 1 || d != 200 {
		t.Errorf("%d lists, %d watches, %d deletes; want 1, 1, 200", l, w, d)
	}
}

// TestDeleteGivesUp stops asking when everything fails.
func TestDeleteGivesUp(t *testing.T) {
	var objs []*unstructured.Unstructured
	for i := range 200 {
		objs = append(objs, widget(fmt.Sprintf("w%03d", i)))
	}
	c := newCluster(t, objs...)
	c.Fail(func(call steptest.Call) error {
		if call.Verb == "delete" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "widgets"}, call.Ref.Name, errors.New("no"))
		}
		return nil
	})
	_, err := run(t.Context(), t, c, action(t, deleteAll), &host{})
	contains(t, err, "more")
	if n := len(calls(c, "delete")); n > 60 {
		t.Errorf("%d deletes although all are forbidden", n)
	}
}

func TestDeletePreview(t *testing.T) {
	c := newCluster(t, widget("a", "example.com/f"), deleting(widget("b", "example.com/f")), widget("c"))
	p, err := preview(t, c, action(t, deleteAll))
	if err != nil || p.Said != "would delete 2, and wait for 1 being deleted already" || p.Idle {
		t.Fatalf("got %+v, %v", p, err)
	}
	diff(t, "changes", []string{"delete demo/widgets.example.com/a (held by example.com/f)", "delete demo/widgets.example.com/c"}, changes(p))
	p, err = preview(t, newCluster(t), action(t, deleteAll))
	if err != nil || p.Said != "nothing to delete" || !p.Idle {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestDeleteProblems(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"{resource: pods, namespace: demo, all: true}", ""},
		{"{resource: pods, namespace: demo}", "this would delete all of them"},
		{"{resource: pods, namespace: demo, name: a, all: true}", "all and a name or selector exclude each other"},
		{"{resource: pods, namespace: demo, name: a, gracePeriod: -1}", "not negative"},
		{"{resource: pods, namespace: demo, name: a, propagation: Later}", `"Later" is not allowed`},
	} {
		got := problems("delete: " + tt.args)
		if tt.want == "" && got != "" || !contained(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.args, got, tt.want)
		}
	}
}
