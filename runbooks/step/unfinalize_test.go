package step_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"rutter/runbooks/step"
	"rutter/runbooks/step/steptest"
)

const freeF = "unfinalize: {resource: widgets.example.com, namespace: demo, finalizers: [example.com/f]}"

func TestUnfinalize(t *testing.T) {
	a, b := "demo/widgets.example.com/a", "demo/widgets.example.com/b"
	stuck := func(name string, finalizers ...string) *unstructured.Unstructured {
		return deleting(widget(name, finalizers...))
	}
	for _, tt := range []struct {
		name, verb string
		objs       []*unstructured.Unstructured
		before     func(c *steptest.Cluster) error // before the first patch
		said       string
		want       map[string][]any
		left       map[string]string // finalizers of what is there afterwards
		patches    int
		err        []string
	}{
		{name: "nothing", said: "nothing to free", want: map[string][]any{}},
		{
			name: "only what is being deleted, and only ours", patches: 1, said: "1 freed; 1 not being deleted, and left alone",
			objs: []*unstructured.Unstructured{stuck("a", "example.com/f"), widget("b", "example.com/f"), stuck("c", "example.com/g"), widget("d")},
			want: map[string][]any{"freed": {a}, "notDeleting": {b}}, left: map[string]string{"b": "example.com/f", "c": "example.com/g", "d": ""},
		},
		{
			name: "others hold it", patches: 2, said: "2 freed", objs: []*unstructured.Unstructured{stuck("a", "example.com/g", "example.com/f", "example.com/h"), stuck("b", "example.com/f")},
			want: map[string][]any{"freed": {a, b}, "held": {a}}, left: map[string]string{"a": "example.com/g example.com/h"},
			err: []string{"unfinalize widgets.example.com in demo: others hold " + a + " (example.com/g, example.com/h)"},
		},
		{
			name: "another finalizer went meanwhile", patches: 2, said: "1 freed", objs: []*unstructured.Unstructured{stuck("a", "example.com/g", "example.com/f")},
			before: func(c *steptest.Cluster) error {
				c.Edit(ref(widgets, "a"), func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"example.com/f"}) })
				return nil
			},
			want: map[string][]any{"freed": {a}}, left: map[string]string{},
		},
		{
			name: "gone meanwhile", patches: 1, said: "1 freed", objs: []*unstructured.Unstructured{stuck("a", "example.com/f")},
			before: func(c *steptest.Cluster) error { c.Remove(ref(widgets, "a")); return nil },
			want:   map[string][]any{"freed": {a}}, left: map[string]string{},
		},
		{
			name: "another of its name by now", patches: 1, said: "1 freed", objs: []*unstructured.Unstructured{stuck("a", "example.com/f")},
			before: func(c *steptest.Cluster) error {
				again := widget("a", "example.com/f")
				again.SetUID("another")
				return c.Put(again)
			},
			want: map[string][]any{"freed": {a}}, left: map[string]string{"a": "example.com/f"},
		},
		{
			name: "invalid for another reason", patches: 1, said: "nothing to free", objs: []*unstructured.Unstructured{stuck("a", "example.com/f")},
			before: func(*steptest.Cluster) error {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "Widget"}, "a", field.ErrorList{field.Invalid(field.NewPath("spec", "size"), 1, "must be odd")})
			},
			want: map[string][]any{}, left: map[string]string{"a": "example.com/f"}, err: []string{"must be odd"},
		},
		{
			name: "dead webhook", patches: 2, said: "1 freed", objs: []*unstructured.Unstructured{stuck("a", "example.com/f"), stuck("b", "example.com/f")},
			before: func(*steptest.Cluster) error {
				return apierrors.NewInternalError(errors.New(`failed calling webhook "w.example.com": failed to call webhook: Post "https://hook.sys.svc:443/x?timeout=10s": no endpoints available for service "hook"`))
			},
			want: nil, err: []string{`webhook "w.example.com" of service hook in namespace sys does not answer`, "only by a finalizer"},
		},
		{
			name: "namespace gone", patches: 1, said: "nothing to free", objs: []*unstructured.Unstructured{stuck("a", "example.com/f")},
			before: func(*steptest.Cluster) error {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "demo")
			},
			want: map[string][]any{}, left: map[string]string{"a": "example.com/f"}, err: []string{"make the namespace demo again"},
		},
		{
			name: "by name", verb: "unfinalize: {resource: widgets.example.com, namespace: demo, name: a, finalizers: [example.com/f]}", patches: 1, said: "1 freed",
			objs: []*unstructured.Unstructured{stuck("a", "example.com/f"), stuck("b", "example.com/f")},
			want: map[string][]any{"freed": {a}}, left: map[string]string{"b": "example.com/f"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			c := newCluster(t, tt.objs...)
			var once sync.Once
			c.Fail(func(call steptest.Call) (err error) {
				if call.Verb == "patch" && tt.before != nil {
					once.Do(func() { err = tt.before(c) })
				}
				return err
			})
			verb := tt.verb
			if verb == "" {
				verb = freeF
			}
			res, err := run(ctx, t, c, action(t, verb), &host{})
			if tt.err != nil {
				contains(t, err, tt.err...)
			} else if err != nil {
				t.Fatal(err)
			}
			if res.Said != tt.said || len(calls(c, "patch")) != tt.patches {
				t.Errorf("said %q with %d patches; want %q with %d", res.Said, len(calls(c, "patch")), tt.said, tt.patches)
			}
			if tt.want != nil {
				diff(t, "result", tt.want, lists(res, "freed", "held", "notDeleting"))
			}
			if tt.left != nil {
				left := map[string]string{}
				for _, o := range c.Objects(widgets) {
					left[o.GetName()] = strings.Join(o.GetFinalizers(), " ")
				}
				diff(t, "what is left", tt.left, left)
			}
		})
	}
}

// TestUnfinalizeWaits for what a patch freed and the server still holds: a pod
// has its grace period.
func TestUnfinalizeWaits(t *testing.T) {
	c := newCluster(t, deleting(widget("a", "example.com/f")))
	// A controller puts the object back under its UID, so that it does not go.
	uid := c.Object(ref(widgets, "a")).GetUID()
	c.OnWrite(func(call steptest.Call, _ *unstructured.Unstructured) {
		if call.Verb == "patch" {
			again := deleting(widget("a", "example.com/kept"))
			again.SetUID(uid)
			put(t, c, again)
		}
	})
	_, err := run(soon(t), t, c, action(t, freeF), &host{})
	contains(t, err, "still there", "demo/widgets.example.com/a: being deleted, held by example.com/kept")
	put(t, c, deleting(widget("b", "example.com/f")))
	res, err := run(t.Context(), t, c, action(t, strings.Replace(freeF, "finalizers", "name: b, wait: false, finalizers", 1)), &host{})
	if err != nil || res.Said != "1 freed" {
		t.Errorf("without waiting: %+v, %v", res, err)
	}
}

func TestUnfinalizeMany(t *testing.T) {
	var objs []*unstructured.Unstructured
	for i := range 100 {
		objs = append(objs, deleting(widget(fmt.Sprintf("w%04d", i), "example.com/f")))
	}
	c := newCluster(t, objs...)
	res, err := run(t.Context(), t, c, action(t, freeF), &host{})
	if err != nil || res.Said != "100 freed" || len(c.Objects(widgets)) != 0 {
		t.Fatalf("got %+v, %v; %d left", res, err, len(c.Objects(widgets)))
	}
	if l, p, w := len(calls(c, "list")), len(calls(c, "patch")), len(calls(c, "watch")); l != 1 || p != 100 || w != 1 {
		t.Errorf("%d lists, %d patches, %d watches; want 1, 100, 1", l, p, w)
	}
}

func TestUnfinalizePreview(t *testing.T) {
	c := newCluster(t, deleting(widget("a", "example.com/f", "example.com/g")), deleting(widget("b", "example.com/f")), widget("c", "example.com/f"))
	p, err := preview(t, c, action(t, freeF))
	if err != nil || p.Said != "would free 2; 1 with the finalizer are not being deleted and stay as they are" {
		t.Fatalf("got %+v, %v", p, err)
	}
	diff(t, "changes", []string{
		"update demo/widgets.example.com/a (is being deleted, and stays held by example.com/g)",
		"update demo/widgets.example.com/b (is being deleted)",
	}, changes(p))
	diff(t, "finalizers afterwards", []string{"example.com/g"}, p.Changes[0].After.GetFinalizers())
}

func TestUnfinalizeProblems(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"{resource: pods, namespace: demo, finalizers: [a.b/c]}", ""},
		{"{resource: pods, namespace: demo, finalizers: []}", "empty"},
		{"{resource: namespaces, name: a, finalizers: [kubernetes]}", "Kubernetes' own"},
	} {
		got := problems("unfinalize: " + tt.args)
		if tt.want == "" && got != "" || !contained(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.args, got, tt.want)
		}
	}
}

var _ step.Host = (*host)(nil)
