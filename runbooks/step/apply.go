package step

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Manager is the field manager of everything that runs apply, and that the
// page's commands name.
const Manager = "rutter"

// Apply returns the verb that makes objects be as manifests say.
func Apply() *Kind {
	return &Kind{
		Name: "apply",
		Doc: "Server-side apply of manifests, as the field manager `rutter`. " +
			"Custom resource definitions and namespaces come first, and a definition is waited for until it is served.\n\n" +
			"A field that another manager owns is a conflict: the step fails and names the field and the manager. " +
			"`force` takes such fields over.",
		Example: `- id: namespace
  title: Make the namespace
  apply:
    manifests:
    - {apiVersion: v1, kind: Namespace, metadata: {name: demo}}
`,
		Result: "`applied` and `unchanged`: lists of names",
		New:    func() Action { return new(apply) },
	}
}

type apply struct {
	Manifests []any `yaml:"manifests,required" doc:"The objects."`
	Force     bool  `yaml:"force" doc:"Take over fields that other managers own."`
	Status    bool  `yaml:"status" doc:"Apply what stands under status too, through the status subresource."`
}

func (a *apply) Effect() Effect { return Changes }

func (a *apply) Check() []Problem {
	var ps []Problem
	for i, m := range a.Manifests {
		o, ok := manifest(m)
		if !ok {
			ps = append(ps, Problem{"manifests", fmt.Sprintf("manifest %d is not keys and values", i+1), "write apiVersion, kind and metadata"})
			continue
		}
		for _, need := range []struct{ name, value string }{{"apiVersion", o.GetAPIVersion()}, {"kind", o.GetKind()}, {"metadata.name", o.GetName()}} {
			if need.value == "" {
				ps = append(ps, Problem{"manifests", fmt.Sprintf("manifest %d has no %s", i+1, need.name), "add " + need.name})
			}
		}
	}
	return ps
}

func manifest(m any) (*unstructured.Unstructured, bool) {
	o, ok := m.(map[string]any)
	return &unstructured.Unstructured{Object: o}, ok
}

// objects are the manifests in the order in which they are applied.
func (a *apply) objects() []*unstructured.Unstructured {
	var first, then []*unstructured.Unstructured
	for _, m := range a.Manifests {
		o, ok := manifest(m)
		switch {
		case !ok:
		case o.GetKind() == "CustomResourceDefinition" || o.GetKind() == "Namespace":
			first = append(first, o)
		default:
			then = append(then, o)
		}
	}
	return append(first, then...)
}

// resourceOf names the resource of a manifest by the rule that Kubernetes' own
// code generators follow.
func resourceOf(o *unstructured.Unstructured) Resource {
	plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	return Resource{Plural: plural.Resource, Version: plural.Version, Group: plural.Group}
}

func refTo(o *unstructured.Unstructured) Ref {
	return Ref{Resource: resourceOf(o), Namespace: o.GetNamespace(), Name: o.GetName()}
}

func (a *apply) Permissions() []Permission {
	var ps []Permission
	for _, o := range a.objects() {
		ref := refTo(o)
		ps = append(ps, permit(ref.Resource, ref.Namespace, ref.Name, "get", "patch")...)
		// Creating cannot be allowed by name: the object is not there yet.
		ps = append(ps, permit(ref.Resource, ref.Namespace, "", "create")...)
		if o.GetKind() == "CustomResourceDefinition" {
			ps = append(ps, permit(ref.Resource, "", "", "list", "watch")...)
		}
		if _, ok := o.Object["status"]; ok && a.Status {
			ps = append(ps, Permission{Verb: "patch", Resource: ref.Resource.Unversioned(), Subresource: "status", Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	return unique(ps)
}

func (a *apply) Kubectl() []Line {
	words := []string{"kubectl", "apply", "--server-side", "--field-manager=" + Manager}
	if a.Force {
		words = append(words, "--force-conflicts")
	}
	lines := []Line{{Words: append(words, "-f", "-"), Stdin: a.document(a.objects())}}
	var withStatus []*unstructured.Unstructured
	for _, o := range a.objects() {
		if _, ok := o.Object["status"]; ok && a.Status {
			withStatus = append(withStatus, o)
		}
	}
	if len(withStatus) > 0 {
		lines = append(lines, Line{Words: append(append([]string{}, words...), "--subresource=status", "-f", "-"), Stdin: a.document(withStatus)})
	}
	return lines
}

func (a *apply) document(objs []*unstructured.Unstructured) string {
	docs := make([]string, 0, len(objs))
	for _, o := range objs {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			text = []byte("# cannot be written down: " + err.Error() + "\n")
		}
		docs = append(docs, string(text))
	}
	return strings.Join(docs, "---\n")
}

func (a *apply) Preview(ctx context.Context, r Reader) (*Preview, error) {
	p := &Preview{}
	for _, o := range a.objects() {
		c, err := a.previewOne(ctx, r, o)
		if err != nil {
			return nil, err
		}
		if c != nil {
			p.Changes = append(p.Changes, *c)
		}
	}
	p.Idle = len(p.Changes) == 0
	p.Said = fmt.Sprintf("would apply %d", len(p.Changes))
	if p.Idle {
		p.Said = "no change"
	}
	return p, nil
}

// previewOne returns what would change of one object, nil for nothing.
func (a *apply) previewOne(ctx context.Context, r Reader, o *unstructured.Unstructured) (*Change, error) {
	ref := refTo(o)
	if _, err := r.Resolve(ctx, ref.Resource); err != nil {
		if a.defines(o) {
			return &Change{Op: OpCreate, Object: ref, After: o, Note: "its kind is made by this step"}, nil
		}
		return nil, fmt.Errorf("apply %s: %w", ref, err)
	}
	before, err := r.Get(ctx, ref)
	if apierrors.IsNotFound(err) {
		before, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("apply %s: %w", ref, err)
	}
	if before == nil && a.makes("Namespace", ref.Namespace) {
		return &Change{Op: OpCreate, Object: ref, After: o, Note: "in a namespace that this step makes or keeps"}, nil
	}
	after, err := r.DryRun(ctx, a.write(ref, o, ""))
	if err != nil {
		return nil, a.explain(ref, err)
	}
	switch {
	case before == nil:
		return &Change{Op: OpCreate, Object: ref, After: after}, nil
	case sameContent(before, after):
		return nil, nil
	}
	return &Change{Op: OpUpdate, Object: ref, Before: before, After: after}, nil
}

func (a *apply) makes(kind, name string) bool {
	for _, o := range a.objects() {
		if o.GetKind() == kind && o.GetName() == name {
			return true
		}
	}
	return false
}

// defines reports whether the step defines the kind of o itself.
func (a *apply) defines(o *unstructured.Unstructured) bool {
	for _, crd := range a.objects() {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		if crd.GetKind() == "CustomResourceDefinition" && group == o.GroupVersionKind().Group && kind == o.GetKind() {
			return true
		}
	}
	return false
}

func (a *apply) write(ref Ref, o *unstructured.Unstructured, subresource string) Write {
	return Write{Ref: ref, Apply: &ApplyWrite{Object: o, Force: a.Force, Subresource: subresource}}
}

func (a *apply) Run(ctx context.Context, c Cluster, h Host) (*Result, error) {
	var did, not []any
	for _, o := range a.objects() {
		h.Progress("applying " + o.GetKind() + " " + o.GetName())
		changed, err := a.one(ctx, c, o)
		if err != nil {
			return &Result{Said: fmt.Sprintf("%d applied before it failed", len(did))}, err
		}
		if changed {
			did = append(did, refTo(o).String())
		} else {
			not = append(not, refTo(o).String())
		}
	}
	res := &Result{Value: map[string]any{"applied": did, "unchanged": not}, Said: "no change"}
	if len(did) > 0 {
		res.Said = fmt.Sprintf("%d applied", len(did))
	}
	return res, nil
}

func (a *apply) one(ctx context.Context, c Cluster, o *unstructured.Unstructured) (changed bool, err error) {
	ref := refTo(o)
	served, err := c.Resolve(ctx, ref.Resource)
	if err != nil {
		return false, fmt.Errorf("apply %s: %w", ref, err)
	}
	if served.Kind != o.GetKind() {
		return false, fmt.Errorf("apply %s: the server calls that resource %s, the manifest %s", ref, served.Kind, o.GetKind())
	}
	before, err := c.Get(ctx, ref)
	if apierrors.IsNotFound(err) {
		before, err = nil, nil
	}
	if err != nil {
		return false, fmt.Errorf("apply %s: %w", ref, err)
	}
	after, err := c.Do(ctx, a.write(ref, o, ""))
	if err != nil {
		return false, a.explain(ref, err)
	}
	if _, ok := o.Object["status"]; ok && a.Status {
		if after, err = c.Do(ctx, a.write(ref, o, "status")); err != nil {
			return false, a.explain(ref, err)
		}
	}
	if o.GetKind() == "CustomResourceDefinition" {
		if err := established(ctx, c, o.GetName()); err != nil {
			return false, err
		}
	}
	return before == nil || after == nil || before.GetResourceVersion() != after.GetResourceVersion(), nil
}

// established waits until a definition is served.
func established(ctx context.Context, r Reader, name string) error {
	q := Query{Resource: Resource{Plural: "customresourcedefinitions", Group: "apiextensions.k8s.io"}, Name: name}
	err := r.Follow(ctx, q, func(objs []*unstructured.Unstructured) (bool, error) {
		if len(objs) == 0 {
			return false, nil
		}
		ok, _ := conditionTrue(objs[0], "Established")
		return ok, nil
	})
	if err != nil {
		return fmt.Errorf("wait until %s is served: %w", name, err)
	}
	return nil
}

// explain names the fields and managers of a conflict.
func (a *apply) explain(ref Ref, err error) error {
	status, ok := err.(apierrors.APIStatus)
	if !apierrors.IsConflict(err) || !ok || status.Status().Details == nil {
		return fmt.Errorf("apply %s: %w", ref, webhookHint(err, "it is asked before an object of this kind is made or changed"))
	}
	var fields []string
	for _, c := range status.Status().Details.Causes {
		if c.Type == metav1.CauseTypeFieldManagerConflict {
			fields = append(fields, c.Field+" ("+c.Message+")")
		}
	}
	if len(fields) == 0 {
		return fmt.Errorf("apply %s: %w", ref, err)
	}
	return fmt.Errorf("apply %s: others own these fields: %s; force: true would take them over", ref, strings.Join(fields, ", "))
}

// sameContent compares two states of an object without what the server counts.
func sameContent(a, b *unstructured.Unstructured) bool {
	return contentOf(a) == contentOf(b)
}

func contentOf(o *unstructured.Unstructured) string {
	if o == nil {
		return ""
	}
	c := o.DeepCopy()
	unstructured.RemoveNestedField(c.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(c.Object, "metadata", "resourceVersion")
	unstructured.RemoveNestedField(c.Object, "metadata", "generation")
	text, err := yaml.Marshal(c.Object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
