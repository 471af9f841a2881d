package step_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rutter/runbooks/step"
	"rutter/runbooks/step/steptest"
)

// TestUnfinalizeLeavesKubernetesItsOwn frees an object that the garbage
// collector holds, too, and that goes once the collector has done its part.
func TestUnfinalizeLeavesKubernetesItsOwn(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := newCluster(t, deleting(widget("a", "kubernetes", "example.com/f")))
	c.OnWrite(func(_ steptest.Call, o *unstructured.Unstructured) {
		diff(t, "finalizers after the patch", []string{"kubernetes"}, o.GetFinalizers())
		c.Edit(ref(widgets, "a"), func(o *unstructured.Unstructured) { o.SetFinalizers(nil) })
	})
	res, err := run(ctx, t, c, action(t, freeF), &host{})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "value", any(map[string]any{"freed": []any{"demo/widgets.example.com/a"}, "held": []any{}, "notDeleting": []any{}}), res.Value)
}

// TestUnfinalizeThousand frees a thousand objects, of which every tenth
// changes under its patch, and leaves those that are not being deleted.
func TestUnfinalizeThousand(t *testing.T) {
	var objs []*unstructured.Unstructured
	for i := range 1000 {
		o := deleting(widget(fmt.Sprintf("w%04d", i), "example.com/f"))
		if i%10 == 0 {
			o = deleting(widget(fmt.Sprintf("w%04d", i), "example.com/g", "example.com/f"))
		}
		objs = append(objs, o)
	}
	c := newCluster(t, append(objs, widget("kept", "example.com/f"))...)
	c.Fail(func(call steptest.Call) error {
		if call.Verb == "patch" && call.Ref.Name[4] == '0' {
			c.Edit(step.Ref{Resource: widgets, Namespace: "demo", Name: call.Ref.Name}, func(o *unstructured.Unstructured) {
				o.SetFinalizers([]string{"example.com/f"})
			})
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := run(ctx, t, c, action(t, freeF), &host{})
	if err != nil || res.Said != "1000 freed; 1 not being deleted, and left alone" {
		t.Fatalf("got %+v, %v", res, err)
	}
	left := c.Objects(widgets)
	if len(left) != 1 || left[0].GetName() != "kept" || len(left[0].GetFinalizers()) != 1 {
		t.Errorf("got %d left, want only the one that is not being deleted, untouched", len(left))
	}
	if n := len(calls(c, "patch")); n != 1100 {
		t.Errorf("got %d patches, want 1100: one each, and one more for those that changed", n)
	}
}
