package kube_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"rutter/executor/kube/kubetest"
	"rutter/runbooks/step"
	"rutter/runbooks/step/steptest"
)

// The cluster in memory that verbs are tested on must answer as a real one.
func TestLiveAgreesWithTheFake(t *testing.T) {
	real := kubetest.Connect(t, "a")
	fake := steptest.New(t, nil)
	fake.AllowAll()
	for _, o := range kubetest.Decode(t, boatCRD) {
		if _, err := fake.Do(t.Context(), step.Write{Ref: kubetestRef(o), Apply: &step.ApplyWrite{Object: o}}); err != nil {
			t.Fatal(err)
		}
		if o.GetKind() == "Boat" {
			body := []byte(`{"status":{"afloat":true}}`)
			if _, err := fake.Do(t.Context(), step.Write{Ref: kubetestRef(o), Patch: &step.PatchWrite{Type: types.MergePatchType, Body: body, Subresource: "status"}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	kubetest.Apply(t, real, boatCRD)

	got, want := script(t, fake), script(t, real)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the fake differs (-real +fake):\n%s", diff)
	}
}

func kubetestRef(o *unstructured.Unstructured) step.Ref {
	plural := map[string]step.Resource{
		"Boat": boats, "Namespace": spaces, "ConfigMap": configMaps,
		"CustomResourceDefinition": {Plural: "customresourcedefinitions", Group: "apiextensions.k8s.io"},
	}
	return step.Ref{Resource: plural[o.GetKind()], Namespace: o.GetNamespace(), Name: o.GetName()}
}

// script does one thing after the other and returns what each came to.
func script(t *testing.T, c step.Cluster) []string {
	t.Helper()
	boat, err := c.Get(t.Context(), boatRef("ann"))
	if err != nil {
		t.Fatal(err)
	}
	ann, other := step.RefOf(boats, boat), boatRef("ann")
	other.UID = "11111111-0000-0000-0000-000000000000"
	merge := func(ref step.Ref, body, sub string) step.Write {
		return step.Write{Ref: ref, Patch: &step.PatchWrite{Type: types.MergePatchType, Body: []byte(body), Subresource: sub}}
	}
	patch := func(ref step.Ref, body string) step.Write {
		return step.Write{Ref: ref, Patch: &step.PatchWrite{Type: types.JSONPatchType, Body: []byte(body)}}
	}
	apply := func(name, namespace, spec string) step.Write {
		o := kubetest.Decode(t, fmt.Sprintf("{apiVersion: live.example.com/v1, kind: Boat, metadata: {name: %s, namespace: %s}, spec: %s}", name, namespace, spec))[0]
		return step.Write{Ref: kubetestRef(o), Apply: &step.ApplyWrite{Object: o}}
	}
	del := func(ref step.Ref) step.Write { return step.Write{Ref: ref, Delete: &step.DeleteWrite{}} }
	harbour := step.Ref{Resource: spaces, Name: "harbour"}
	var out []string
	for i, w := range []step.Write{
		merge(ann, `{"spec":{"size":7},"status":{"afloat":false}}`, ""),
		merge(ann, `{"spec":{"size":8},"status":{"afloat":false}}`, "status"),
		merge(ann, `{"spec":{"size":7}}`, ""),
		merge(ann, `{}`, "nothing"),
		merge(other, `{"spec":{"size":9}}`, ""),
		merge(other, `{"status":{"afloat":true}}`, "status"),
		merge(boatRef("none"), `{}`, ""),
		merge(ann, `{"metadata":{"resourceVersion":"1"}}`, ""),
		merge(ann, `nonsense`, ""),
		patch(ann, `[{"op":"test","path":"/spec/size","value":7},{"op":"replace","path":"/spec/size","value":5}]`),
		patch(ann, `[{"op":"test","path":"/spec/size","value":7}]`),
		patch(other, `[]`),
		patch(ann, `[{"op":"remove","path":"/spec/none"}]`),
		{Ref: ann, Patch: &step.PatchWrite{Type: types.StrategicMergePatchType, Body: []byte(`{}`)}},
		apply("bob", "harbour", "{size: 1}"),
		apply("bob", "harbour", "{size: 1}"),
		apply("bob", "nowhere", "{size: 1}"),
		apply("ann", "harbour", "{size: 1}"),
		del(other),
		del(boatRef("none")),
		del(boatRef("bob")),
		del(ann),
		merge(ann, `{"metadata":{"finalizers":["live.example.com/moored","live.example.com/new"]}}`, ""),
		del(harbour),
		apply("eve", "harbour", "{size: 1}"),
		patch(ann, `[{"op":"test","path":"/metadata/finalizers/0","value":"live.example.com/moored"},{"op":"remove","path":"/metadata/finalizers/0"}]`),
	} {
		_, dryErr := c.DryRun(t.Context(), w)
		_, err := c.Do(t.Context(), w)
		line := fmt.Sprintf("%d %s: %s", i, w.Ref.Name, apierrors.ReasonForError(err))
		if err != nil && apierrors.ReasonForError(err) == "" {
			line += err.Error()
		}
		if a, b := apierrors.ReasonForError(dryErr), apierrors.ReasonForError(err); a != b {
			line += fmt.Sprintf(", dry run: %s", a)
		}
		out = append(out, line+" "+facts(t, c, "ann")+facts(t, c, "bob"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err = c.Follow(ctx, step.Query{Resource: spaces, Name: "harbour"}, func(objs []*unstructured.Unstructured) (bool, error) { return len(objs) == 0, nil })
	return append(out, fmt.Sprint("in the end: ", err))
}

// facts are what a verb sees of a boat.
func facts(t *testing.T, c step.Cluster, name string) string {
	t.Helper()
	o, err := c.Get(t.Context(), boatRef(name))
	if err != nil {
		return fmt.Sprintf("[%s %s]", name, apierrors.ReasonForError(err))
	}
	return fmt.Sprintf("[%s generation %d deleting %t finalizers %v spec %v status %v]", name, o.GetGeneration(),
		o.GetDeletionTimestamp() != nil, o.GetFinalizers(), o.Object["spec"], o.Object["status"])
}
