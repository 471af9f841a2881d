package step_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"rutter/runbooks/step"
	"rutter/runbooks/step/steptest"
)

const (
	farm      = "{apiVersion: v1, kind: Namespace, metadata: {name: farm}}"
	configMap = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: demo}, data: {a: b}}"
	sheepCRD  = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: sheep.example.com}, spec: {group: example.com, " +
		"scope: Namespaced, names: {plural: sheep, kind: Sheep}, versions: [{name: v1, served: true, storage: true, subresources: {status: {}}}]}}"
	dolly = "{apiVersion: example.com/v1, kind: Sheep, metadata: {name: dolly, namespace: farm}, spec: {wool: 3}, status: {phase: Cloned}}"
)

var (
	deployments = step.Resource{Plural: "deployments", Group: "apps"}
	sheep       = step.Resource{Plural: "sheep", Group: "example.com"}
)

// applying returns the verb with manifests, and flags such as "force: true".
func applying(flags string, manifests ...string) string {
	verb := "apply:\n"
	if flags != "" {
		verb += "  " + flags + "\n"
	}
	return verb + "  manifests:\n  - " + strings.Join(manifests, "\n  - ")
}

func TestApplyDefinitionAndInstance(t *testing.T) {
	// The order in the file is the wrong one, and sheep is no plural that
	// anybody would guess.
	verb := applying("status: true", dolly, sheepCRD, farm)
	c := newCluster(t)
	p, err := preview(t, c, action(t, verb))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "preview", []string{
		"create customresourcedefinitions.v1.apiextensions.k8s.io/sheep.example.com", "create namespaces/farm",
		"create farm/sheep.v1.example.com/dolly (its kind is made by this step)",
	}, changes(p))
	res, err := run(t.Context(), t, c, action(t, verb), &host{})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "value", any(map[string]any{
		"applied":   []any{"customresourcedefinitions.apiextensions.k8s.io/sheep.example.com", "namespaces/farm", "farm/sheep.example.com/dolly"},
		"unchanged": []any{},
	}), res.Value)
	got := c.Object(step.Ref{Resource: sheep, Namespace: "farm", Name: "dolly"})
	if phase, _, _ := unstructured.NestedString(got.Object, "status", "phase"); phase != "Cloned" {
		t.Errorf("status: got %v, want the one of the manifest", got.Object["status"])
	}

	p, err = preview(t, c, action(t, verb))
	if err != nil || !p.Idle || len(p.Changes) > 0 || p.Said != "no change" {
		t.Errorf("preview of the same again: got %+v, %v; want no change", p, err)
	}
	res, err = run(t.Context(), t, c, action(t, verb), &host{})
	if err != nil || res.Said != "no change" {
		t.Errorf("the same again: got %v, %v; want no change", res, err)
	}

	_, err = preview(t, c, action(t, applying("status: true", strings.Replace(dolly, "Cloned", "Shorn", 1))))
	contains(t, err, "does not serve", "the kind Sheep")
	verb = applying("status: true", sheepCRD, strings.Replace(dolly, "Cloned", "Shorn", 1))
	if p, err = preview(t, c, action(t, verb)); err != nil || p.Idle {
		t.Fatalf("preview of another status: got %+v, %v; want a change", p, err)
	}
	diff(t, "preview of another status", []string{"update farm/sheep.v1.example.com/dolly"}, changes(p))
	if phase, _, _ := unstructured.NestedString(p.Changes[0].After.Object, "status", "phase"); phase != "Shorn" {
		t.Errorf("the preview shows the phase %q, want Shorn", phase)
	}
}

func TestApplyIntoNamespaceOfTheStep(t *testing.T) {
	c := newCluster(t)
	verb := applying("", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: farm}}", farm)
	p, err := preview(t, c, action(t, verb))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "preview", []string{"create namespaces/farm", "create farm/configmaps/c (in a namespace that this step makes or keeps)"}, changes(p))
	if _, err := run(t.Context(), t, c, action(t, verb), &host{}); err != nil {
		t.Error(err)
	}
}

func TestApplyConflict(t *testing.T) {
	c := newCluster(t)
	deployment := func(spec map[string]any) *unstructured.Unstructured {
		return steptest.Object("apps/v1", "Deployment", "demo", "web", map[string]any{"spec": spec})
	}
	if err := c.ApplyAs("helm", deployment(map[string]any{"replicas": 3, "paused": true})); err != nil {
		t.Fatal(err)
	}
	mine := "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: demo}, spec: {replicas: 1}}"
	for _, act := range []func(a step.Action) error{
		func(a step.Action) error { _, err := preview(t, c, a); return err },
		func(a step.Action) error { _, err := run(t.Context(), t, c, a, &host{}); return err },
	} {
		contains(t, act(action(t, applying("", mine))), "demo/deployments.v1.apps/web", ".spec.replicas", "helm", "force: true")
	}
	p, err := preview(t, c, action(t, applying("force: true", mine)))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "preview with force", []string{"update demo/deployments.v1.apps/web"}, changes(p))
	if _, err := run(t.Context(), t, c, action(t, applying("force: true", mine)), &host{}); err != nil {
		t.Fatal(err)
	}
	spec := c.Object(ref(deployments, "web")).Object["spec"]
	diff(t, "spec", any(map[string]any{"replicas": int64(1), "paused": true}), spec)
}

// wrapped is an error as a client hands it on.
type wrapped struct{ error }

func (w wrapped) Unwrap() error { return w.error }

func TestApplyErrors(t *testing.T) {
	conflict := apierrors.NewApplyConflict([]metav1.StatusCause{
		{Type: metav1.CauseTypeFieldManagerConflict, Field: ".data.a", Message: `conflict with "helm"`},
	}, "Apply failed")
	for _, tt := range []struct {
		name, verb string
		fail       error // of the write
		want       []string
	}{
		{"conflict in other words", applying("", configMap), wrapped{conflict}, []string{".data.a", "helm"}},
		{"webhook", applying("", configMap), apierrors.NewInternalError(errors.New(
			`failed calling webhook "guard.example.com": failed to call webhook: Post "https://guard.ops.svc:443/": no endpoints available`)),
			[]string{`webhook "guard.example.com" of service guard in namespace ops does not answer`}},
		{"kind that is not served", applying("", "{apiVersion: example.com/v1, kind: Fox, metadata: {name: f, namespace: demo}}"), nil,
			[]string{"foxs.v1.example.com", "the kind Fox would be called by the usual rule"}},
		{"no namespace", applying("", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}"), nil, []string{"configmaps/c", "live in namespaces"}},
		{"namespace that is missing", applying("", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: nowhere}}"), nil,
			[]string{"nowhere/configmaps/c", "nowhere\" not found"}},
	} {
		c := newCluster(t)
		c.Fail(func(call steptest.Call) error {
			if call.Verb == "apply" {
				return tt.fail
			}
			return nil
		})
		_, err := run(t.Context(), t, c, action(t, tt.verb), &host{})
		contains(t, err, tt.want...)
	}
}

func TestApplySaysWhatWasDoneBeforeItFailed(t *testing.T) {
	c := newCluster(t)
	res, err := run(t.Context(), t, c, action(t, applying("", configMap, "{apiVersion: v1, kind: ConfigMap, metadata: {name: d, namespace: nowhere}}")), &host{})
	contains(t, err, "nowhere/configmaps/d")
	diff(t, "value", any(map[string]any{"applied": []any{"demo/configmaps/c"}, "unchanged": []any{}}), res.Value)
}

// owned is a cluster where every apply would make its manager an owner.
type owned struct{ *steptest.Cluster }

func (o owned) DryRun(ctx context.Context, w step.Write) (*unstructured.Unstructured, error) {
	obj, err := o.Cluster.DryRun(ctx, w)
	if err == nil {
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "rutter", Operation: metav1.ManagedFieldsOperationApply}})
	}
	return obj, err
}

func TestApplyTakesOwnershipOnly(t *testing.T) {
	c := newCluster(t, steptest.Object("v1", "ConfigMap", "demo", "c", map[string]any{"data": map[string]any{"a": "b"}}))
	a := action(t, applying("", configMap))
	c.Allow(a.Permissions()...)
	p, err := a.Preview(t.Context(), owned{c})
	if err != nil || p.Idle {
		t.Fatalf("got %+v, %v; want a change", p, err)
	}
	diff(t, "preview", []string{"update demo/configmaps/c (no field changes, only whose they are)"}, changes(p))
}

func TestApplyArguments(t *testing.T) {
	for verb, want := range map[string]string{
		applying("", "just text"):                                 "manifest 1 is not keys and values",
		applying("", "{kind: ConfigMap, metadata: {name: c}}"):    "manifest 1 has no apiVersion",
		applying("", configMap, "{apiVersion: v1, metadata: {}}"): "manifest 2 has no kind",
		applying("", "{apiVersion: v1, kind: ConfigMap}"):         "manifest 1 has no metadata.name",
		"apply: {manifests: []}":                                  "the list is empty",
	} {
		if got := problems(verb); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", verb, got, want)
		}
	}
}
