package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"rutter/runbooks/step"
)

// Do performs one write. A UID in the ref is a precondition: another object of
// the same name makes it a Conflict, and an apply then makes nothing new.
//
// The error is an [UnknownOutcome] if the write may have been done.
func (c *Cluster) Do(ctx context.Context, w step.Write) (*unstructured.Unstructured, error) {
	return c.write(ctx, w, false)
}

// DryRun asks the server what a write would result in, without doing it. For a
// delete that is the object as it is.
func (c *Cluster) DryRun(ctx context.Context, w step.Write) (*unstructured.Unstructured, error) {
	if w.Delete == nil {
		return c.write(ctx, w, true)
	}
	byName := w.Ref
	byName.UID = "" // the dry run itself refuses another object, as Do would
	o, err := c.Get(ctx, byName)
	if err != nil {
		return nil, err
	}
	if _, err := c.write(ctx, w, true); err != nil {
		return nil, err
	}
	return o, nil
}

func (c *Cluster) write(ctx context.Context, w step.Write, dryRun bool) (*unstructured.Unstructured, error) {
	ref := w.Ref
	if w.Apply != nil && ref.Resource.Version == "" {
		// The server merges in the version that the manifest is written in.
		if gv := w.Apply.Object.GroupVersionKind(); gv.Group == ref.Resource.Group {
			ref.Resource.Version = gv.Version
		}
	}
	var o *unstructured.Unstructured
	err := c.onObject(ctx, ref, func(p place) error {
		r, body, err := c.writeOnce(ctx, p, w, dryRun)
		if err != nil {
			return c.uidConflict(ctx, p, w, err)
		}
		if !dryRun && definesResources(ref.Resource) {
			c.forget()
		}
		o, err = object(body)
		if w.Delete != nil && (err != nil || o.GetKind() == "Status") {
			o, err = nil, nil // the server only says that it did it
		}
		if err != nil {
			return r.wrap(&UnknownOutcome{err})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// writeOnce makes the request for a write and does it.
func (c *Cluster) writeOnce(ctx context.Context, p place, w step.Write, dryRun bool) (request, []byte, error) {
	if w.Ref.UID == "" || !ignoresUID(w) {
		r, err := writeRequest(p, w, pin{uid: w.Ref.UID}, dryRun)
		if err != nil {
			return r, nil, err
		}
		body, err := c.do(ctx, r)
		return r, body, err
	}
	// The object as it is now is the one that is meant, or there is a conflict.
	for tries := 1; ; tries++ {
		byName := w.Ref
		byName.UID = ""
		now, err := c.Get(ctx, byName)
		if err == nil && now.GetUID() != w.Ref.UID {
			err = p.conflict(w.Ref.UID)
		}
		if err != nil {
			return request{}, nil, err
		}
		r, err := writeRequest(p, w, pin{w.Ref.UID, now.GetResourceVersion()}, dryRun)
		if err != nil {
			return r, nil, err
		}
		body, err := c.do(ctx, r)
		changed := apierrors.IsConflict(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
		if !changed || tries == maxTries {
			return r, body, err
		}
	}
}

// ignoresUID reports whether the server may do a write although its body has
// the UID of another object: so it is with subresources of custom resources.
func ignoresUID(w step.Write) bool {
	return w.Apply != nil && w.Apply.Subresource != "" ||
		w.Patch != nil && w.Patch.Subresource != "" && w.Patch.Type != types.JSONPatchType
}

// definesResources reports whether writes to a resource change what is served.
func definesResources(res step.Resource) bool {
	return res.Group == "apiextensions.k8s.io" || res.Group == "apiregistration.k8s.io"
}

// pin is which object, and which state of it, a write is meant for.
type pin struct {
	uid     types.UID
	version string // a resource version, or "" for any
}

// into puts the pin into an object or a part of one.
func (p pin) into(fields map[string]any) error {
	for key, value := range map[string]string{"uid": string(p.uid), "resourceVersion": p.version} {
		if value == "" {
			continue
		}
		if err := unstructured.SetNestedField(fields, value, "metadata", key); err != nil {
			return err
		}
	}
	return nil
}

// writeRequest makes the request for a write.
func writeRequest(p place, w step.Write, pin pin, dryRun bool) (r request, err error) {
	switch {
	case w.Apply != nil:
		r, err = applyRequest(p, pin, w.Apply)
	case w.Patch != nil:
		r, err = patchRequest(p, pin, w.Patch)
	case w.Delete != nil:
		r, err = deleteRequest(p, w.Ref.UID, w.Delete, dryRun)
	default:
		return r, errors.New("a write needs one of Apply, Patch and Delete")
	}
	if r.once = !dryRun; dryRun {
		r.query.Set("dryRun", metav1.DryRunAll)
		r.verb = "dry-run " + r.verb
	}
	return r, err
}

func applyRequest(p place, pin pin, w *step.ApplyWrite) (request, error) {
	r := p.request("apply")
	o := w.Object.DeepCopy()
	switch {
	case o.GetName() != p.name:
		return r, r.wrap(fmt.Errorf("the object is named %q", o.GetName()))
	case o.GetNamespace() != "" && o.GetNamespace() != p.namespace:
		return r, r.wrap(fmt.Errorf("the object is in namespace %q", o.GetNamespace()))
	}
	o.SetManagedFields(nil) // which an apply must not have
	if err := pin.into(o.Object); err != nil {
		return r, r.wrap(err)
	}
	body, err := json.Marshal(o.Object)
	if err != nil {
		return r, r.wrap(err)
	}
	if w.Subresource != "" {
		r.path += "/" + url.PathEscape(w.Subresource)
		r.what = strings.Replace(r.what, "/"+p.name, "/"+p.name+"/"+w.Subresource, 1)
	}
	r.method, r.contentType, r.body = http.MethodPatch, string(types.ApplyPatchType), body
	r.query.Set("fieldManager", Manager)
	r.query.Set("fieldValidation", metav1.FieldValidationStrict)
	if w.Force {
		r.query.Set("force", "true")
	}
	return r, nil
}

func patchRequest(p place, pin pin, w *step.PatchWrite) (request, error) {
	r := p.request("patch")
	body, err := pin.intoPatch(w.Type, w.Body)
	if err != nil {
		return r, r.wrap(err)
	}
	if w.Subresource != "" {
		r.path += "/" + url.PathEscape(w.Subresource)
		r.what = strings.Replace(r.what, "/"+p.name, "/"+p.name+"/"+w.Subresource, 1)
	}
	r.method, r.contentType, r.body = http.MethodPatch, string(w.Type), body
	r.query.Set("fieldManager", Manager)
	return r, nil
}

// intoPatch makes a patch fail for another object than the pinned one. The API
// has no precondition for patches, but no patch may change a UID.
func (p pin) intoPatch(kind types.PatchType, body []byte) ([]byte, error) {
	if p.uid == "" {
		return body, nil
	}
	if kind == types.JSONPatchType {
		var ops []any
		if err := utiljson.Unmarshal(body, &ops); err != nil {
			return nil, apierrors.NewBadRequest("the JSON patch cannot be read: " + err.Error())
		}
		test := map[string]any{"op": "test", "path": "/metadata/uid", "value": string(p.uid)}
		return json.Marshal(append([]any{test}, ops...))
	}
	var fields map[string]any
	err := utiljson.Unmarshal(body, &fields)
	if err == nil {
		err = p.into(fields)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("the patch cannot be read: " + err.Error())
	}
	return json.Marshal(fields)
}

func deleteRequest(p place, uid types.UID, w *step.DeleteWrite, dryRun bool) (request, error) {
	r := p.request("delete")
	policy := metav1.DeletionPropagation(cmp.Or(w.Propagation, string(metav1.DeletePropagationBackground)))
	opts := metav1.DeleteOptions{
		TypeMeta:           metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"},
		GracePeriodSeconds: w.GraceSeconds,
		PropagationPolicy:  &policy,
	}
	if uid != "" {
		opts.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	if dryRun {
		// With a body the server does not look at the parameters at all.
		opts.DryRun = []string{metav1.DryRunAll}
	}
	body, err := json.Marshal(opts)
	if err != nil {
		return r, r.wrap(err)
	}
	r.method, r.body = http.MethodDelete, body
	return r, nil
}

// uidConflict turns what the server says to a patch of another object than
// meant into the Conflict that it says to a delete. It does not say which test
// of a JSON patch failed, so the object itself is asked then.
func (c *Cluster) uidConflict(ctx context.Context, p place, w step.Write, err error) error {
	if w.Ref.UID == "" || w.Delete != nil || code(err) != http.StatusUnprocessableEntity {
		return err
	}
	if !strings.Contains(err.Error(), "metadata.uid") {
		if w.Patch == nil || w.Patch.Type != types.JSONPatchType {
			return err
		}
		if _, readErr := c.Get(ctx, w.Ref); !apierrors.IsNotFound(readErr) {
			return err
		}
	}
	return p.conflict(w.Ref.UID)
}

// conflict is the error of a write to another object than the one meant.
func (p place) conflict(uid types.UID) error {
	return p.request("patch").wrap(apierrors.NewConflict(p.groupResource(), p.name,
		fmt.Errorf("another object has taken the name of the one with UID %s", uid)))
}
