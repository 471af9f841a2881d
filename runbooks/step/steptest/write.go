package steptest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"rutter/runbooks/step"
)

// epoch is the time of everything that happens in the cluster.
var epoch = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// Do performs one write.
func (c *Cluster) Do(ctx context.Context, w step.Write) (*unstructured.Unstructured, error) {
	return c.write(ctx, w, false)
}

// DryRun answers what a write would result in.
func (c *Cluster) DryRun(ctx context.Context, w step.Write) (*unstructured.Unstructured, error) {
	return c.write(ctx, w, true)
}

// ApplyAs applies an object as another field manager, without permissions. It
// is how a test makes a conflict.
func (c *Cluster) ApplyAs(manager string, o *unstructured.Unstructured) error {
	o, err := normal(o)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.defOfKind(o.GroupVersionKind().Group, o.GetKind())
	if d == nil {
		return fmt.Errorf("apply %s: kind %s is not served", o.GetName(), o.GroupVersionKind())
	}
	ref := step.Ref{Resource: d.resource, Namespace: o.GetNamespace(), Name: o.GetName()}
	_, err = c.apply(d, manager, ref, &step.ApplyWrite{Object: o}, false)
	return err
}

func (c *Cluster) write(ctx context.Context, w step.Write, dryRun bool) (*unstructured.Unstructured, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	call := Call{Ref: w.Ref, Write: w, DryRun: dryRun}
	perm := permission("patch", w.Ref, "")
	switch {
	case w.Apply != nil:
		call.Verb, call.Subresource = "apply", w.Apply.Subresource
		perm.Subresource = w.Apply.Subresource
	case w.Patch != nil:
		call.Verb, call.Subresource = "patch", w.Patch.Subresource
		perm.Subresource = w.Patch.Subresource
	case w.Delete != nil:
		call.Verb, perm.Verb = "delete", "delete"
	default:
		return nil, errors.New("a write needs one of Apply, Patch and Delete")
	}
	if err := c.enter(call, perm); err != nil {
		return nil, err
	}
	o, hooks, err := c.perform(w, dryRun)
	if err != nil || dryRun {
		return o, err
	}
	for _, hook := range hooks {
		hook(call, o.DeepCopy())
	}
	return o, nil
}

func (c *Cluster) perform(w step.Write, dryRun bool) (*unstructured.Unstructured, []func(Call, *unstructured.Unstructured), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, err := c.scoped(w.Ref.Resource, w.Ref.Namespace, true)
	if err != nil {
		return nil, nil, err
	}
	var o *unstructured.Unstructured
	switch {
	case w.Apply != nil:
		o, err = c.apply(d, Manager, w.Ref, w.Apply, dryRun)
	case w.Patch != nil:
		o, err = c.patch(d, w.Ref, w.Patch, dryRun)
	default:
		o, err = c.delete(d, w.Ref, w.Delete, dryRun)
	}
	if err != nil {
		return nil, nil, err
	}
	return d.as(w.Ref.Resource, o), slices.Clone(c.onWrite), nil
}

// existing returns the object to change. One of another UID is a conflict, as
// a precondition that fails is.
func (c *Cluster) existing(d *def, ref step.Ref) (*stored, error) {
	s := c.store[d.resource][key{ref.Namespace, ref.Name}]
	if s == nil {
		return nil, apierrors.NewNotFound(groupResource(ref.Resource), ref.Name)
	}
	return s, checkUID(ref, ref.UID, s.obj)
}

func checkUID(ref step.Ref, want types.UID, o *unstructured.Unstructured) error {
	if want == "" || want == o.GetUID() {
		return nil
	}
	return apierrors.NewConflict(groupResource(ref.Resource), ref.Name, fmt.Errorf(
		"precondition failed: UID in precondition: %s, UID in object meta: %s", want, o.GetUID()))
}

func (c *Cluster) patch(d *def, ref step.Ref, p *step.PatchWrite, dryRun bool) (*unstructured.Unstructured, error) {
	s, err := c.existing(d, ref)
	if err != nil {
		return nil, err
	}
	content, err := patched(d, s.obj.DeepCopy().Object, p)
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{Object: content}
	switch p.Subresource {
	case "status":
		o = statusOnly(s.obj, o)
	case "", "scale":
	default:
		return nil, apierrors.NewNotFound(groupResource(ref.Resource), ref.Name)
	}
	return c.update(d, ref, s, o, s.owners.updated(Manager, s.obj, o), p.Subresource, dryRun)
}

// patched returns the object with the patch in it.
func patched(d *def, content map[string]any, p *step.PatchWrite) (map[string]any, error) {
	switch p.Type {
	case types.JSONPatchType:
		out, err := applyJSONPatch(content, p.Body)
		if m, ok := out.(map[string]any); err == nil && ok {
			return m, nil
		}
		return nil, patchError(err)
	case types.MergePatchType, types.StrategicMergePatchType:
		if p.Type == types.StrategicMergePatchType && !strings.HasSuffix("."+d.resource.Group, ".k8s.io") && strings.Contains(d.resource.Group, ".") {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", groupResource(d.resource), "",
				"the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml", 0, false)
		}
		var body map[string]any
		if err := json.Unmarshal(p.Body, &body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		out, _ := mergePatch(content, body, p.Type == types.StrategicMergePatchType).(map[string]any)
		return out, nil
	}
	return nil, apierrors.NewBadRequest(fmt.Sprintf("unknown patch type %q", p.Type))
}

func patchError(err error) error {
	if err == nil {
		err = errors.New("the result is no object")
	}
	if errors.Is(err, errBadPatch) {
		return apierrors.NewBadRequest(err.Error())
	}
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", groupResource(step.Resource{}), "", err.Error(), 0, false)
}

// statusOnly returns old with the status of changed.
func statusOnly(old, changed *unstructured.Unstructured) *unstructured.Unstructured {
	o := old.DeepCopy()
	if status, ok := changed.Object["status"]; ok {
		o.Object["status"] = status
	} else {
		delete(o.Object, "status")
	}
	// Labels and annotations travel with a status too; nothing here needs them.
	return o
}

// update validates o as the successor of s and stores it, unless nothing changed.
func (c *Cluster) update(d *def, ref step.Ref, s *stored, o *unstructured.Unstructured, own owners, sub string, dryRun bool) (*unstructured.Unstructured, error) {
	old := s.obj
	gr := groupResource(ref.Resource)
	if err := checkUID(ref, o.GetUID(), old); err != nil {
		return nil, err
	}
	if rv := o.GetResourceVersion(); rv != "" && rv != old.GetResourceVersion() {
		return nil, apierrors.NewConflict(gr, ref.Name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	if o.GetName() != ref.Name || o.GetNamespace() != ref.Namespace {
		return nil, apierrors.NewBadRequest("the name of the object does not match the name on the URL")
	}
	if old.GetDeletionTimestamp() != nil {
		for _, f := range o.GetFinalizers() {
			if !slices.Contains(old.GetFinalizers(), f) {
				return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", gr, ref.Name,
					fmt.Sprintf("metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers [%q]", f), 0, false)
			}
		}
	}
	restoreSystemFields(old, o)
	if sub == "" && !d.noStatus {
		o = withStatusOf(old, o)
	}
	if sub == "" && d.resource == namespaces {
		keepField(old, o, "spec", "finalizers") // only /finalize changes them
	}
	if !sameSpec(old, o) {
		o.SetGeneration(old.GetGeneration() + 1)
	}
	if dryRun {
		return o, nil
	}
	if reflect.DeepEqual(old.Object, o.Object) {
		s.owners = own
		return o, nil
	}
	c.save(d, key{ref.Namespace, ref.Name}, &stored{o, own})
	answer := o.DeepCopy()
	c.settle()
	c.broadcast()
	return answer, nil
}

// restoreSystemFields undoes what a client cannot change.
func restoreSystemFields(old, o *unstructured.Unstructured) {
	o.SetUID(old.GetUID())
	o.SetResourceVersion(old.GetResourceVersion())
	o.SetGeneration(old.GetGeneration())
	for _, f := range []string{"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		keepField(old, o, "metadata", f)
	}
	o.SetAPIVersion(old.GetAPIVersion())
	o.SetKind(old.GetKind())
}

func withStatusOf(old, o *unstructured.Unstructured) *unstructured.Unstructured {
	keepField(old, o, "status")
	return o
}

// keepField gives o the field as old has it, absent included.
func keepField(old, o *unstructured.Unstructured, path ...string) {
	v, found, _ := unstructured.NestedFieldCopy(old.Object, path...)
	if !found {
		unstructured.RemoveNestedField(o.Object, path...)
		return
	}
	// Only a path through something that is no object can fail, and the
	// server's own fields are objects.
	_ = unstructured.SetNestedField(o.Object, v, path...)
}

// sameSpec reports whether nothing but metadata and status differs.
func sameSpec(a, b *unstructured.Unstructured) bool {
	strip := func(o *unstructured.Unstructured) map[string]any {
		m := map[string]any{}
		for k, v := range o.Object {
			if k != "metadata" && k != "status" {
				m[k] = v
			}
		}
		return m
	}
	return reflect.DeepEqual(strip(a), strip(b))
}

func setDefault(o *unstructured.Unstructured, v any, path ...string) {
	if _, found, _ := unstructured.NestedFieldNoCopy(o.Object, path...); !found {
		_ = unstructured.SetNestedField(o.Object, v, path...)
	}
}

func joinPath(path []string) string { return strings.Join(path, ".") }
