package step_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"rutter/runbooks/step"
	"rutter/runbooks/step/steptest"
)

// TestApplyWaitsUntilTheKindIsKnown has a server that names a resource only a
// while after its definition is established.
func TestApplyWaitsUntilTheKindIsKnown(t *testing.T) {
	verb := `apply:
  manifests:
  - {apiVersion: example.com/v1, kind: Gizmo, metadata: {name: g, namespace: demo}}
  - apiVersion: apiextensions.k8s.io/v1
    kind: CustomResourceDefinition
    metadata: {name: gizmos.example.com}
    spec:
      group: example.com
      scope: Namespaced
      names: {kind: Gizmo, plural: gizmos, singular: gizmo, listKind: GizmoList}
      versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]`
	c := newCluster(t)
	asked := 0
	c.Fail(func(call steptest.Call) error {
		if call.Verb == "resolve" && call.Ref.Resource.Plural == "gizmos" {
			if asked++; asked <= 2 {
				return fmt.Errorf("gizmos.example.com: %w", step.ErrNotServed)
			}
		}
		return nil
	})
	res, err := run(t.Context(), t, c, action(t, verb), &host{})
	if err != nil || res.Said != "2 applied" || asked < 3 {
		t.Errorf("got %+v, %v after %d questions", res, err, asked)
	}
}

func TestApplyPreviewSaysWhatNeedsReplacement(t *testing.T) {
	c := newCluster(t, widget("a"))
	c.Fail(func(call steptest.Call) error {
		if call.DryRun {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Widget"}, "a", field.ErrorList{field.Invalid(field.NewPath("spec", "size"), 2, "field is immutable")})
		}
		return nil
	})
	verb := "apply: {manifests: [{apiVersion: example.com/v1beta1, kind: Widget, metadata: {name: a, namespace: demo}, spec: {size: 2}}]}"
	p, err := preview(t, c, action(t, verb))
	if err != nil || len(p.Changes) != 1 || p.Idle || !strings.HasPrefix(p.Changes[0].Note, "needs replacement") {
		t.Errorf("got %+v, %v", p, err)
	}
}

// TestUnfinalizeShowsWhatIsFilledIn keeps a placeholder in a template.
func TestUnfinalizeShowsWhatIsFilledIn(t *testing.T) {
	got := lines(t, "unfinalize: {resource: widgets.example.com, namespace: demo, finalizers: ['example.com/${inputs.name}']}")
	if !strings.Contains(got, `{{if eq . "example.com/<NAME>"}}`) {
		t.Errorf("got %s", got)
	}
}
