package kube_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"rutter/executor/kube"
	"rutter/executor/kube/kubetest"
	"rutter/runbooks/step"
)

var (
	configMaps = step.Resource{Plural: "configmaps"}
	spaces     = step.Resource{Plural: "namespaces"}
)

const boatCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.live.example.com}
spec:
  group: live.example.com
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, listKind: BoatList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: v1
kind: Namespace
metadata: {name: harbour}
---
apiVersion: live.example.com/v1
kind: Boat
metadata: {name: ann, namespace: harbour, finalizers: [live.example.com/moored]}
spec: {size: 3}
status: {afloat: true}
`

var boats = step.Resource{Plural: "boats", Group: "live.example.com"}

func boatRef(name string) step.Ref {
	return step.Ref{Resource: boats, Namespace: "harbour", Name: name}
}

func TestLiveWrites(t *testing.T) {
	c := kubetest.Connect(t, "a")
	if _, err := c.Resolve(t.Context(), boats); !errors.Is(err, step.ErrNotServed) {
		t.Fatalf("boats before: %v, want not served", err)
	}
	objs := kubetest.Apply(t, c, boatCRD)
	boat := objs[len(objs)-1]
	if afloat, _, _ := unstructured.NestedBool(boat.Object, "status", "afloat"); !afloat {
		t.Errorf("the status was not set: %v", boat.Object["status"])
	}
	ref := step.RefOf(boats, boat)
	other := ref
	other.UID = "00000000-0000-0000-0000-000000000000"
	merge := []byte(`{"spec":{"size":4}}`)
	jsonPatch := []byte(`[{"op":"replace","path":"/spec/size","value":5}]`)
	apply := boat.DeepCopy()
	delete(apply.Object, "status")
	apply.SetUID("")
	apply.SetResourceVersion("")
	for name, w := range map[string]step.Write{
		"merge patch": {Patch: &step.PatchWrite{Type: types.MergePatchType, Body: merge}},
		"JSON patch":  {Patch: &step.PatchWrite{Type: types.JSONPatchType, Body: jsonPatch}},
		"apply":       {Apply: &step.ApplyWrite{Object: apply, Force: true}},
		"delete":      {Delete: &step.DeleteWrite{}},
	} {
		w.Ref = other
		if _, err := c.Do(t.Context(), w); !apierrors.IsConflict(err) {
			t.Errorf("%s of another UID: %v, want a conflict", name, err)
		}
		w.Ref = ref
		before, err := c.Get(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.DryRun(t.Context(), w); err != nil {
			t.Errorf("dry run of %s: %v", name, err)
		}
		after, err := c.Get(t.Context(), ref)
		if err != nil || after.GetResourceVersion() != before.GetResourceVersion() || after.GetDeletionTimestamp() != nil {
			t.Errorf("the dry run of %s changed something: %v", name, err)
		}
	}
	got, err := c.Do(t.Context(), step.Write{Ref: ref, Patch: &step.PatchWrite{Type: types.MergePatchType, Body: merge}})
	if size, _, _ := unstructured.NestedInt64(got.Object, "spec", "size"); err != nil || size != 4 {
		t.Errorf("merge patch: size %d, %v; want 4", size, err)
	}
	status := step.PatchWrite{Type: types.MergePatchType, Body: []byte(`{"status":{"afloat":false}}`), Subresource: "status"}
	if _, err := c.Do(t.Context(), step.Write{Ref: other, Patch: &status}); !apierrors.IsConflict(err) {
		t.Errorf("status of another UID: %v, want a conflict", err)
	}
	if got, err = c.Do(t.Context(), step.Write{Ref: ref, Patch: &status}); err != nil {
		t.Error(err)
	} else if afloat, _, _ := unstructured.NestedBool(got.Object, "status", "afloat"); afloat {
		t.Error("the status patch changed nothing")
	}
	if got, err = c.Do(t.Context(), step.Write{Ref: ref, Delete: &step.DeleteWrite{}}); err != nil || got.GetDeletionTimestamp() == nil {
		t.Errorf("delete: %v, %v; want an object that is being deleted", got, err)
	}
}

func TestLiveApplyConflict(t *testing.T) {
	c := kubetest.Connect(t, "a")
	kubetest.Apply(t, c, "{apiVersion: v1, kind: Namespace, metadata: {name: harbour}}")
	ref := step.Ref{Resource: configMaps, Namespace: "harbour", Name: "log"}
	config := func(value string) *unstructured.Unstructured {
		return kubetest.Decode(t, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: log, namespace: harbour}, data: {course: %s}}", value))[0]
	}
	first, err := c.Do(t.Context(), step.Write{Ref: ref, Apply: &step.ApplyWrite{Object: config("north")}})
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Do(t.Context(), step.Write{Ref: ref, Apply: &step.ApplyWrite{Object: config("north")}})
	if err != nil || again.GetResourceVersion() != first.GetResourceVersion() {
		t.Errorf("the same again changed something: %v", err)
	}
	// A patch makes the same manager an owner of another kind.
	if _, err := c.Do(t.Context(), step.Write{Ref: ref, Patch: &step.PatchWrite{Type: types.MergePatchType, Body: []byte(`{"data":{"course":"south"}}`)}}); err != nil {
		t.Fatal(err)
	}
	_, err = c.Do(t.Context(), step.Write{Ref: ref, Apply: &step.ApplyWrite{Object: config("east")}})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), ".data.course") {
		t.Errorf("apply over another: %v, want a conflict that names the field", err)
	}
	if _, err = c.Do(t.Context(), step.Write{Ref: ref, Apply: &step.ApplyWrite{Object: config("east"), Force: true}}); err != nil {
		t.Errorf("forced: %v", err)
	}
	bad := config("east")
	bad.Object["colour"] = "blue"
	if _, err = c.Do(t.Context(), step.Write{Ref: ref, Apply: &step.ApplyWrite{Object: bad}}); err == nil || !strings.Contains(err.Error(), "colour") {
		t.Errorf("unknown field: %v, want an error that names it", err)
	}
}

func TestLiveListAndFollow(t *testing.T) {
	c := kubetest.Connect(t, "a")
	kubetest.Apply(t, c, "{apiVersion: v1, kind: Namespace, metadata: {name: harbour}}")
	const n = 510
	var g errgroup.Group
	g.SetLimit(16)
	for i := range n {
		o := kubetest.Decode(t, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: log-%04d, namespace: harbour, labels: {kind: log}}}", i))[0]
		g.Go(func() error {
			_, err := c.Do(t.Context(), step.Write{Ref: step.Ref{Resource: configMaps, Namespace: "harbour", Name: o.GetName()}, Apply: &step.ApplyWrite{Object: o}})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	q := step.Query{Resource: configMaps, Namespace: "harbour", Selector: "kind=log"}
	objs, err := c.List(t.Context(), q)
	if err != nil || len(objs) != n || objs[0].GetKind() != "ConfigMap" {
		t.Fatalf("%d objects, %v; want %d", len(objs), err, n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var seen []int
	err = c.Follow(ctx, q, func(objs []*unstructured.Unstructured) (bool, error) {
		seen = append(seen, len(objs))
		if len(objs) == n {
			_, err := c.Do(ctx, step.Write{Ref: step.RefOf(configMaps, objs[7]), Delete: &step.DeleteWrite{}})
			return false, err
		}
		return true, nil
	})
	if diff := cmp.Diff([]int{n, n - 1}, seen); err != nil || diff != "" {
		t.Errorf("follow: %v (-want +got):\n%s", err, diff)
	}
	one := step.Query{Resource: configMaps, Namespace: "harbour", Name: "log-0001"}
	if objs, err = c.List(t.Context(), one); err != nil || len(objs) != 1 {
		t.Errorf("by name: %d objects, %v; want 1", len(objs), err)
	}
}

const viewer = `
{apiVersion: v1, kind: Namespace, metadata: {name: harbour}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: boat-viewer}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: boat-viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: boat-viewer}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: ann}]
`

func TestLiveIdentityAndAccess(t *testing.T) {
	path, name := kubetest.Cluster(t, "a")
	c, err := kube.New(kube.Config{Kubeconfig: path, Context: name})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	id, err := c.Identity(t.Context())
	if err != nil || id.UID == "" || id.User == "" || !strings.HasPrefix(id.Version, "v1.") || id.Context != "a" {
		t.Errorf("identity %+v, %v", id, err)
	}
	if id.UID == "" {
		t.Fatal("no identity")
	}
	kubetest.Apply(t, c, viewer)
	handed, err := c.Kubeconfig(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ann := impersonate(t, handed, "ann")
	perms := []step.Permission{
		{Verb: "get", Resource: configMaps, Namespace: "harbour"},
		{Verb: "watch", Resource: configMaps, Namespace: "harbour"},
		{Verb: "delete", Resource: spaces, Name: "harbour"},
		{Verb: "list", Resource: configMaps},
	}
	missing, err := ann.Access(t.Context(), perms)
	if diff := cmp.Diff(perms[1:3], missing); err != nil || diff != "" {
		t.Errorf("missing: %v (-want +got):\n%s", err, diff)
	}
	if id, err := ann.Identity(t.Context()); !errors.Is(err, kube.ErrIdentityForbidden) || id.User != "ann" {
		t.Errorf("identity without the right: %+v, %v", id, err)
	}
	err = ann.Follow(t.Context(), step.Query{Resource: configMaps, Namespace: "harbour"}, func([]*unstructured.Unstructured) (bool, error) { return false, nil })
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "watch") {
		t.Errorf("follow without the right to watch: %v", err)
	}
}

func TestLiveWipeRemovesWhatIsStuck(t *testing.T) {
	c := kubetest.Connect(t, "b")
	before, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kubetest.Apply(t, c, boatCRD+`
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.nowhere.example.com}
spec: {group: nowhere.example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 100, service: {name: none, namespace: harbour}}
---
apiVersion: v1
kind: Node
metadata: {name: raft}
---
apiVersion: v1
kind: Namespace
metadata: {name: quay, finalizers: [live.example.com/quay]}
---
`+strings.Split(viewer, "---")[1])
	// A broken group must not keep others from being used.
	if _, err := c.Get(t.Context(), boatRef("ann")); err != nil {
		t.Errorf("next to a broken group: %v", err)
	}
	if _, err := c.Resolve(t.Context(), step.Resource{Plural: "ships", Group: "nowhere.example.com"}); err == nil {
		t.Error("a broken group resolved")
	}
	for _, r := range []step.Ref{{Resource: spaces, Name: "harbour"}, {Resource: spaces, Name: "quay"}} {
		if _, err := c.Do(t.Context(), step.Write{Ref: r, Delete: &step.DeleteWrite{}}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := time.Now()
	if err := c.RemoveSince(ctx, before); err != nil {
		t.Fatal(err)
	}
	t.Logf("removed in %s", time.Since(start))
	if _, err := c.Resolve(t.Context(), boats); !errors.Is(err, step.ErrNotServed) {
		t.Errorf("boats after: %v, want not served", err)
	}
	if err := c.RemoveSince(ctx, &kube.Snapshot{Cluster: "another"}); err == nil {
		t.Error("the snapshot of another cluster was used")
	}
}
