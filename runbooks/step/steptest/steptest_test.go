package steptest_test

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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"rutter/runbooks/step"
	"rutter/runbooks/step/steptest"
)

var _ step.Cluster = (*steptest.Cluster)(nil)

var (
	configMaps = step.Resource{Plural: "configmaps"}
	spaces     = step.Resource{Plural: "namespaces"}
	pods       = step.Resource{Plural: "pods"}
	deploys    = step.Resource{Plural: "deployments", Group: "apps"}
	widgets    = step.Resource{Plural: "widgets", Group: "example.com"}
	crdRes     = step.Resource{Plural: "customresourcedefinitions", Group: "apiextensions.k8s.io"}
)

func open(t *testing.T, objs ...*unstructured.Unstructured) *steptest.Cluster {
	t.Helper()
	c := steptest.New(t, []steptest.ResourceDef{{
		Resource: step.Resource{Plural: "widgets", Version: "v1beta1", Group: "example.com"}, Kind: "Widget", Namespaced: true,
	}}, objs...)
	c.AllowAll()
	return c
}

func namespace(name string) *unstructured.Unstructured {
	return steptest.Object("v1", "Namespace", "", name, nil)
}

func widget(ns, name string, finalizers ...any) *unstructured.Unstructured {
	o := steptest.Object("example.com/v1beta1", "Widget", ns, name, map[string]any{"spec": map[string]any{"size": 1}})
	if len(finalizers) > 0 {
		o.Object["metadata"].(map[string]any)["finalizers"] = finalizers
	}
	return o
}

func ref(res step.Resource, ns, name string) step.Ref {
	return step.Ref{Resource: res, Namespace: ns, Name: name}
}

func del(r step.Ref) step.Write { return step.Write{Ref: r, Delete: &step.DeleteWrite{}} }

func patch(r step.Ref, kind types.PatchType, body string) step.Write {
	return step.Write{Ref: r, Patch: &step.PatchWrite{Type: kind, Body: []byte(body)}}
}

func apply(r step.Ref, o *unstructured.Unstructured) step.Write {
	return step.Write{Ref: r, Apply: &step.ApplyWrite{Object: o}}
}

func TestRefusesWhatIsNotDeclared(t *testing.T) {
	c := steptest.New(t, nil, namespace("demo"))
	c.Allow(step.Permission{Verb: "get", Resource: pods, Namespace: "demo"},
		step.Permission{Verb: "list", Resource: pods, Namespace: "demo"},
		step.Permission{Verb: "patch", Resource: configMaps, Namespace: "demo"})
	ctx := t.Context()
	if _, err := c.Get(ctx, ref(pods, "demo", "api")); !apierrors.IsNotFound(err) {
		t.Errorf("allowed get: %v, want not found", err)
	}
	if _, err := c.Get(ctx, ref(pods, "other", "api")); !apierrors.IsForbidden(err) {
		t.Errorf("get elsewhere: %v, want forbidden", err)
	}
	err := c.Follow(ctx, step.Query{Resource: pods, Namespace: "demo"}, nil)
	if !apierrors.IsForbidden(err) {
		t.Errorf("watch without the permission: %v, want forbidden", err)
	}
	cm := steptest.Object("v1", "ConfigMap", "demo", "made", nil)
	if _, err := c.Do(ctx, apply(ref(configMaps, "demo", "made"), cm)); !apierrors.IsForbidden(err) {
		t.Errorf("apply that creates, without create: %v, want forbidden", err)
	}
	var got []string
	for _, p := range c.Refused() {
		got = append(got, p.String())
	}
	want := []string{"get pods api in namespace other", "watch pods in namespace demo", "create configmaps in namespace demo"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	if n := len(c.Calls()); n != 4 {
		t.Errorf("%d calls recorded, want 4", n)
	}
}

func TestFinalizersHoldAnObject(t *testing.T) {
	c := open(t, namespace("demo"), widget("demo", "w", "example.com/hold", "example.com/other"))
	r := ref(widgets, "demo", "w")
	before := c.Object(r)
	got, err := c.Do(t.Context(), del(step.RefOf(widgets, before)))
	if err != nil || got.GetDeletionTimestamp() == nil {
		t.Fatalf("delete: %v, %v; want an object that is being deleted", got, err)
	}
	if _, err := c.Do(t.Context(), patch(r, types.MergePatchType, `{"metadata":{"finalizers":["example.com/hold","new/one"]}}`)); err == nil {
		t.Error("a new finalizer was accepted during deletion")
	}
	if _, err := c.Do(t.Context(), patch(r, types.JSONPatchType,
		`[{"op":"test","path":"/metadata/finalizers/0","value":"example.com/hold"},{"op":"remove","path":"/metadata/finalizers/0"}]`)); err != nil {
		t.Fatal(err)
	}
	if o := c.Object(r); o == nil || len(o.GetFinalizers()) != 1 {
		t.Fatalf("after the first finalizer: %v, want one left", o)
	}
	if _, err := c.Do(t.Context(), patch(r, types.MergePatchType, `{"metadata":{"finalizers":null}}`)); err != nil {
		t.Fatal(err)
	}
	if o := c.Object(r); o != nil {
		t.Errorf("still there: %v", o)
	}
	if _, err := c.Do(t.Context(), del(r)); !apierrors.IsNotFound(err) {
		t.Errorf("delete again: %v, want not found", err)
	}
}

func TestUIDIsAPrecondition(t *testing.T) {
	c := open(t, namespace("demo"), widget("demo", "w"))
	r := ref(widgets, "demo", "w")
	r.UID = "another"
	if _, err := c.Do(t.Context(), del(r)); !apierrors.IsConflict(err) {
		t.Errorf("delete: %v, want conflict", err)
	}
	if _, err := c.Do(t.Context(), patch(r, types.MergePatchType, `{}`)); !apierrors.IsConflict(err) {
		t.Errorf("patch: %v, want conflict", err)
	}
	if _, err := c.Get(t.Context(), r); !apierrors.IsNotFound(err) {
		t.Errorf("get: %v, want not found", err)
	}
	if _, err := c.Do(t.Context(), patch(ref(widgets, "demo", "w"), types.MergePatchType, `{"metadata":{"resourceVersion":"1"}}`)); !apierrors.IsConflict(err) {
		t.Errorf("patch of an old version: %v, want conflict", err)
	}
}

func TestNamespaceWaitsForItsContent(t *testing.T) {
	c := open(t, namespace("demo"), widget("demo", "stuck", "example.com/hold"), steptest.Object("v1", "ConfigMap", "demo", "cm", nil))
	ns := ref(spaces, "", "demo")
	if _, err := c.Do(t.Context(), del(ns)); err != nil {
		t.Fatal(err)
	}
	if o := c.Object(ref(configMaps, "demo", "cm")); o != nil {
		t.Errorf("the config map stayed: %v", o)
	}
	if o := c.Object(ref(widgets, "demo", "stuck")); o == nil || o.GetDeletionTimestamp() == nil {
		t.Errorf("the widget is not being deleted: %v", o)
	}
	conds, _, _ := unstructured.NestedSlice(c.Object(ns).Object, "status", "conditions")
	got := fmt.Sprint(conds)
	for _, want := range []string{"widgets.example.com has 1 resource instances", "example.com/hold in 1 resource instances"} {
		if !strings.Contains(got, want) {
			t.Errorf("conditions %s do not say %q", got, want)
		}
	}
	_, err := c.Do(t.Context(), apply(ref(configMaps, "demo", "new"), steptest.Object("v1", "ConfigMap", "demo", "new", nil)))
	if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, "NamespaceTerminating") {
		t.Errorf("create in a namespace that goes: %v, want forbidden", err)
	}
	c.Edit(ref(widgets, "demo", "stuck"), func(o *unstructured.Unstructured) { o.SetFinalizers(nil) })
	if o := c.Object(ns); o != nil {
		t.Errorf("the namespace stayed: %v", o)
	}
}

func TestDefinitionServesAndCleansUp(t *testing.T) {
	c := open(t, namespace("demo"))
	crd := steptest.Object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "gadgets.example.com", map[string]any{"spec": map[string]any{
		"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": "gadgets", "kind": "Gadget"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
	}})
	gadgets := step.Resource{Plural: "gadgets", Group: "example.com"}
	if _, err := c.Resolve(t.Context(), gadgets); !errors.Is(err, step.ErrNotServed) || !strings.Contains(err.Error(), "gadgets.example.com") {
		t.Errorf("resolve before: %v, want not served and named", err)
	}
	if _, err := c.Do(t.Context(), apply(ref(crdRes, "", "gadgets.example.com"), crd)); err != nil {
		t.Fatal(err)
	}
	got, err := c.Resolve(t.Context(), gadgets)
	if want := (step.Served{Version: "v1", Kind: "Gadget", Namespaced: true}); err != nil || got != want {
		t.Errorf("resolve: %v, %v; want %v", got, err, want)
	}
	g := steptest.Object("example.com/v1", "Gadget", "demo", "g", nil)
	if _, err := c.Do(t.Context(), apply(ref(gadgets, "demo", "g"), g)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(t.Context(), del(ref(crdRes, "", "gadgets.example.com"))); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Resolve(t.Context(), gadgets); !errors.Is(err, step.ErrNotServed) {
		t.Errorf("resolve after: %v, want not served", err)
	}
}

func TestApply(t *testing.T) {
	deploy := func(replicas any, image string) *unstructured.Unstructured {
		spec := map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "app", "image": image}},
		}}}
		if replicas != nil {
			spec["replicas"] = replicas
		}
		return steptest.Object("apps/v1", "Deployment", "demo", "api", map[string]any{"spec": spec})
	}
	c := open(t, namespace("demo"))
	r := ref(deploys, "demo", "api")
	made, err := c.Do(t.Context(), apply(r, deploy(2, "one")))
	if err != nil || made.GetGeneration() != 1 {
		t.Fatalf("create: %v, %v", made, err)
	}
	again, err := c.Do(t.Context(), apply(r, deploy(2, "one")))
	if err != nil || again.GetResourceVersion() != made.GetResourceVersion() {
		t.Errorf("the same again: %v, resource version %s, want %s", err, again.GetResourceVersion(), made.GetResourceVersion())
	}
	if err := c.ApplyAs("helm", steptest.Object("apps/v1", "Deployment", "demo", "api", map[string]any{"spec": map[string]any{"paused": true}})); err != nil {
		t.Fatal(err)
	}
	mine := deploy(2, "two")
	mine.Object["spec"].(map[string]any)["paused"] = false
	_, err = c.Do(t.Context(), apply(r, mine))
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "helm") || !strings.Contains(err.Error(), ".spec.paused") {
		t.Errorf("apply over another: %v, want a conflict that names helm and .spec.paused", err)
	}
	w := apply(r, mine)
	w.Apply.Force = true
	if _, err := c.DryRun(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if got := c.Object(r); got.GetGeneration() != 2 {
		t.Errorf("generation %d after a dry run, want 2", got.GetGeneration())
	}
	if _, err := c.Do(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	got, err := c.Do(t.Context(), apply(r, deploy(nil, "two")))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": "two"}}}}}
	if diff := cmp.Diff(want, got.Object["spec"]); diff != "" {
		t.Errorf("fields that are no longer applied stay (-want +got):\n%s", diff)
	}
}

func TestStatusIsASubresource(t *testing.T) {
	c := open(t, namespace("demo"), widget("demo", "w"))
	r := ref(widgets, "demo", "w")
	got, err := c.Do(t.Context(), patch(r, types.MergePatchType, `{"spec":{"size":2},"status":{"ready":true}}`))
	if err != nil || got.Object["status"] != nil || got.GetGeneration() != 2 {
		t.Errorf("patch: %v, %v; want no status and generation 2", got, err)
	}
	w := patch(r, types.MergePatchType, `{"spec":{"size":3},"status":{"ready":true}}`)
	w.Patch.Subresource = "status"
	got, err = c.Do(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	size, _, _ := unstructured.NestedInt64(got.Object, "spec", "size")
	if err != nil || got.Object["status"] == nil || size != 2 || got.GetGeneration() != 2 {
		t.Errorf("status patch: %v, %v; want status only", got, err)
	}
}

func TestApplyOfAStatus(t *testing.T) {
	c := open(t, namespace("demo"), widget("demo", "w"))
	o := widget("demo", "w")
	o.Object["status"] = map[string]any{"ready": true}
	o.Object["spec"] = map[string]any{"size": 9}
	w := apply(ref(widgets, "demo", "w"), o)
	w.Apply.Subresource = "status"
	got, err := c.Do(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	want := []any{map[string]any{"ready": true}, map[string]any{"size": int64(1)}}
	if diff := cmp.Diff(want, []any{got.Object["status"], got.Object["spec"]}); diff != "" {
		t.Errorf("status and spec (-want +got):\n%s", diff)
	}
	w.Ref.Name = "none"
	o.SetName("none")
	if _, err := c.Do(t.Context(), w); !apierrors.IsNotFound(err) {
		t.Errorf("status of what is not there: %v, want not found", err)
	}
}

func TestListSelects(t *testing.T) {
	pod := func(ns, name, node, phase, app string) *unstructured.Unstructured {
		o := steptest.Object("v1", "Pod", ns, name, map[string]any{
			"spec": map[string]any{"nodeName": node}, "status": map[string]any{"phase": phase},
		})
		o.SetLabels(map[string]string{"app": app})
		return o
	}
	c := open(t, pod("b", "one", "n1", "Running", "x"), pod("a", "two", "n1", "Pending", "y"), pod("a", "one", "n2", "Running", "x"))
	for _, tt := range []struct {
		q    step.Query
		want string
	}{
		{step.Query{}, "a/one a/two b/one"},
		{step.Query{Namespace: "a"}, "a/one a/two"},
		{step.Query{Namespace: "a", Name: "two"}, "a/two"},
		{step.Query{Selector: "app in (x)"}, "a/one b/one"},
		{step.Query{Fields: "spec.nodeName=n1"}, "a/two b/one"},
		{step.Query{Fields: "status.phase!=Running"}, "a/two"},
		{step.Query{Fields: "metadata.namespace=b,metadata.name=one"}, "b/one"},
		{step.Query{Selector: "app=none"}, ""},
	} {
		tt.q.Resource = pods
		objs, err := c.List(t.Context(), tt.q)
		var got []string
		for _, o := range objs {
			got = append(got, o.GetNamespace()+"/"+o.GetName())
		}
		if s := strings.Join(got, " "); err != nil || s != tt.want {
			t.Errorf("list %+v = %q, %v; want %q", tt.q, s, err, tt.want)
		}
	}
	if _, err := c.List(t.Context(), step.Query{Resource: pods, Fields: "spec.color=red"}); !apierrors.IsBadRequest(err) {
		t.Errorf("unknown field: %v, want bad request", err)
	}
}

func TestFollowSeesEveryChange(t *testing.T) {
	c := open(t, namespace("demo"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	var sizes []int
	err := c.Follow(ctx, step.Query{Resource: widgets, Namespace: "demo"}, func(objs []*unstructured.Unstructured) (bool, error) {
		sizes = append(sizes, len(objs))
		if n := len(sizes); n <= 2 {
			wg.Go(func() {
				if err := c.Put(widget("demo", fmt.Sprint("w", n))); err != nil {
					t.Error(err)
				}
			})
			return false, nil
		}
		return true, nil
	})
	if err != nil || !slices.Equal(sizes, []int{0, 1, 2}) {
		t.Errorf("sizes %v, %v; want 0 1 2", sizes, err)
	}
	ctx, cancel = context.WithCancel(ctx)
	err = c.Follow(ctx, step.Query{Resource: widgets}, func([]*unstructured.Unstructured) (bool, error) { cancel(); return false, nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after cancel: %v", err)
	}
}

func TestHooks(t *testing.T) {
	c := open(t, namespace("demo"), widget("demo", "w"))
	boom := errors.New("boom")
	c.Fail(func(call steptest.Call) error {
		if call.Verb == "patch" {
			return boom
		}
		return nil
	})
	r := ref(widgets, "demo", "w")
	if _, err := c.Do(t.Context(), patch(r, types.MergePatchType, `{}`)); !errors.Is(err, boom) {
		t.Errorf("patch: %v, want the injected error", err)
	}
	c.OnWrite(func(call steptest.Call, _ *unstructured.Unstructured) {
		if call.Verb == "delete" {
			if err := c.Put(widget("demo", call.Ref.Name)); err != nil {
				t.Error(err)
			}
		}
	})
	uid := c.Object(r).GetUID()
	if _, err := c.Do(t.Context(), del(r)); err != nil {
		t.Fatal(err)
	}
	if o := c.Object(r); o == nil || o.GetUID() == uid {
		t.Errorf("the controller did not make a new one: %v", o)
	}
}

func TestGarbageCollection(t *testing.T) {
	owner := widget("demo", "owner")
	owner.SetUID("owner-uid")
	dependent := steptest.Object("v1", "ConfigMap", "demo", "dep", nil)
	dependent.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1beta1", Kind: "Widget", Name: "owner", UID: "owner-uid"}})
	for _, tt := range []struct {
		propagation string
		stays       bool
	}{{"", false}, {"Background", false}, {"Foreground", false}, {"Orphan", true}} {
		c := open(t, namespace("demo"), owner, dependent)
		w := del(ref(widgets, "demo", "owner"))
		w.Delete.Propagation = tt.propagation
		if _, err := c.Do(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		if o := c.Object(ref(widgets, "demo", "owner")); o != nil {
			t.Errorf("%s: the owner stays: %v", tt.propagation, o)
		}
		if got := c.Object(ref(configMaps, "demo", "dep")) != nil; got != tt.stays {
			t.Errorf("%s: the dependent stays: %t, want %t", tt.propagation, got, tt.stays)
		}
	}
}

func TestScopeMustFit(t *testing.T) {
	c := open(t)
	if _, err := c.Get(t.Context(), ref(pods, "", "x")); err == nil || apierrors.IsNotFound(err) {
		t.Errorf("pod without namespace: %v", err)
	}
	if _, err := c.Get(t.Context(), ref(spaces, "demo", "x")); err == nil || apierrors.IsNotFound(err) {
		t.Errorf("namespace in a namespace: %v", err)
	}
}

func TestJSONPatchErrors(t *testing.T) {
	c := open(t, namespace("demo"), widget("demo", "w"))
	r := ref(widgets, "demo", "w")
	for _, tt := range []struct {
		body string
		code int32
	}{
		{`[{"op":"test","path":"/spec/size","value":1},{"op":"add","path":"/spec/list","value":[1]},{"op":"add","path":"/spec/list/-","value":2}]`, 0},
		{`[{"op":"test","path":"/spec/size","value":2}]`, 422},
		{`[{"op":"replace","path":"/spec/none/x","value":2}]`, 422},
		{`[{"op":"remove","path":"/spec/list/7"}]`, 422},
		{`[{"op":"move","from":"/spec/list","path":"/spec/other"}]`, 0},
		{`[{"op":"frob","path":"/spec"}]`, 400},
		{`{}`, 400},
	} {
		_, err := c.Do(t.Context(), patch(r, types.JSONPatchType, tt.body))
		var status apierrors.APIStatus
		var code int32
		if errors.As(err, &status) {
			code = status.Status().Code
		}
		if code != tt.code || (err != nil) != (tt.code != 0) {
			t.Errorf("%s: %v, want code %d", tt.body, err, tt.code)
		}
	}
}
