package step

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

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
		case isDefinition(o) || o.GetKind() == "Namespace":
			first = append(first, o)
		default:
			then = append(then, o)
		}
	}
	return append(first, then...)
}

// ref names the object of a manifest. Its resource is the one that a definition
// among the manifests says, or else follows from the kind by the rule of
// Kubernetes' own code generators.
func (a *apply) ref(o *unstructured.Unstructured) Ref {
	plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	res := Resource{Plural: plural.Resource, Version: plural.Version, Group: plural.Group}
	if crd := a.definition(o); crd != nil {
		if name, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural"); name != "" {
			res.Plural = name
		}
	}
	return Ref{Resource: res, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// name is how results call an object: as the other verbs do, without version.
func (a *apply) name(o *unstructured.Unstructured) string {
	ref := a.ref(o)
	ref.Resource = ref.Resource.Unversioned()
	return ref.String()
}

func (a *apply) Permissions() []Permission {
	var ps []Permission
	for _, o := range a.objects() {
		ref := a.ref(o)
		ps = append(ps, permit(ref.Resource, ref.Namespace, ref.Name, "get", "patch")...)
		// Creating cannot be allowed by name: the object is not there yet.
		ps = append(ps, permit(ref.Resource, ref.Namespace, "", "create")...)
		if isDefinition(o) {
			ps = append(ps, permit(ref.Resource, "", "", "list", "watch")...)
		}
		if a.withStatus(o) {
			ps = append(ps, Permission{Verb: "patch", Resource: ref.Resource.Unversioned(), Subresource: "status", Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	return unique(ps)
}

func (a *apply) Kubectl() []Line {
	var definitions, others, withStatus []*unstructured.Unstructured
	for _, o := range a.objects() {
		if isDefinition(o) {
			definitions = append(definitions, o)
		} else {
			others = append(others, o)
		}
		if a.withStatus(o) {
			withStatus = append(withStatus, o)
		}
	}
	var lines []Line
	if len(definitions) > 0 {
		// kubectl looks up every kind before it applies the first object.
		words := []string{"kubectl", "wait", "--for=condition=Established"}
		for _, o := range definitions {
			words = append(words, "customresourcedefinitions.apiextensions.k8s.io/"+o.GetName())
		}
		lines = append(lines, a.kubectl(definitions), Line{Words: words})
	}
	if len(others) > 0 {
		lines = append(lines, a.kubectl(others))
	}
	if len(withStatus) > 0 {
		lines = append(lines, a.kubectl(withStatus, "--subresource=status"))
	}
	return lines
}

func (a *apply) kubectl(objs []*unstructured.Unstructured, flags ...string) Line {
	words := []string{"kubectl", "apply", "--server-side", "--field-manager=" + Manager}
	if a.Force {
		words = append(words, "--force-conflicts")
	}
	return Line{Words: append(append(words, flags...), "-f", "-"), Stdin: a.document(objs)}
}

func (a *apply) withStatus(o *unstructured.Unstructured) bool {
	_, ok := o.Object["status"]
	return ok && a.Status
}

func isDefinition(o *unstructured.Unstructured) bool {
	return o.GetKind() == "CustomResourceDefinition"
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
	ref := a.ref(o)
	if _, err := r.Resolve(ctx, ref.Resource); err != nil {
		if a.definition(o) != nil && errors.Is(err, ErrNotServed) {
			return &Change{Op: OpCreate, Object: ref, After: o, Note: "its kind is made by this step"}, nil
		}
		return nil, a.unserved(o, err)
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
	if before != nil && apierrors.IsInvalid(err) && strings.Contains(err.Error(), "immutable") {
		return &Change{Op: OpUpdate, Object: ref, Before: before, Note: "needs replacement, which this step does not do: " + err.Error()}, nil
	}
	if err != nil {
		return nil, a.explain(ref, err)
	}
	switch {
	case before == nil:
		return &Change{Op: OpCreate, Object: ref, After: after}, nil
	case a.withStatus(o):
		status, err := r.DryRun(ctx, a.write(ref, o, "status"))
		if err != nil {
			return nil, a.explain(ref, err)
		}
		if after.Object["status"] = status.Object["status"]; after.Object["status"] == nil {
			delete(after.Object, "status")
		}
	}
	change := &Change{Op: OpUpdate, Object: ref, Before: before, After: after}
	if !sameContent(before, after) {
		return change, nil
	}
	if sameOwners(before, after) {
		return nil, nil
	}
	change.Note = "no field changes, only whose they are"
	return change, nil
}

func (a *apply) makes(kind, name string) bool {
	for _, o := range a.objects() {
		if o.GetKind() == kind && o.GetName() == name {
			return true
		}
	}
	return false
}

// definition returns the manifest that defines the kind of o, nil if none does.
func (a *apply) definition(o *unstructured.Unstructured) *unstructured.Unstructured {
	for _, crd := range a.objects() {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		if isDefinition(crd) && group == o.GroupVersionKind().Group && kind == o.GetKind() {
			return crd
		}
	}
	return nil
}

func (a *apply) write(ref Ref, o *unstructured.Unstructured, subresource string) Write {
	return Write{Ref: ref, Apply: &ApplyWrite{Object: o, Force: a.Force, Subresource: subresource}}
}

func (a *apply) Run(ctx context.Context, c Cluster, h Host) (*Result, error) {
	did, not := []any{}, []any{}
	for _, o := range a.objects() {
		h.Progress("applying " + o.GetKind() + " " + o.GetName())
		changed, err := a.one(ctx, c, o)
		if err != nil {
			return &Result{Value: map[string]any{"applied": did, "unchanged": not}, Said: fmt.Sprintf("%d applied before it failed", len(did))}, err
		}
		if changed {
			did = append(did, a.name(o))
		} else {
			not = append(not, a.name(o))
		}
	}
	res := &Result{Value: map[string]any{"applied": did, "unchanged": not}, Said: "no change"}
	if len(did) > 0 {
		res.Said = fmt.Sprintf("%d applied", len(did))
	}
	return res, nil
}

func (a *apply) one(ctx context.Context, c Cluster, o *unstructured.Unstructured) (changed bool, err error) {
	ref := a.ref(o)
	served, err := c.Resolve(ctx, ref.Resource)
	if err != nil {
		return false, a.unserved(o, err)
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
	if a.withStatus(o) {
		if after, err = c.Do(ctx, a.write(ref, o, "status")); err != nil {
			return false, a.explain(ref, err)
		}
	}
	if isDefinition(o) {
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
	if err == nil {
		err = discovered(ctx, r, name)
	}
	if err != nil {
		return fmt.Errorf("wait until %s is served: %w", name, err)
	}
	return nil
}

// discovered waits until the server names a resource among those it serves,
// which is a moment after its definition says so.
func discovered(ctx context.Context, r Reader, name string) error {
	res, err := ParseResource(name)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := r.Resolve(ctx, res); !errors.Is(err, ErrNotServed) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// unserved says which resource was looked for, and why it may be another.
func (a *apply) unserved(o *unstructured.Unstructured, err error) error {
	if errors.Is(err, ErrNotServed) && a.definition(o) == nil {
		return fmt.Errorf("apply %s: %w (so the kind %s would be called by the usual rule)", a.name(o), err, o.GetKind())
	}
	return fmt.Errorf("apply %s: %w", a.name(o), err)
}

// explain names the fields and managers of a conflict.
func (a *apply) explain(ref Ref, err error) error {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
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
