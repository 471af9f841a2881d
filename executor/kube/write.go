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
	o, err := c.Get(ctx, w.Ref)
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
		r, err := writeRequest(p, w)
		if err != nil {
			return err
		}
		if r.once = !dryRun; dryRun {
			r.query.Set("dryRun", metav1.DryRunAll)
			r.verb = "dry-run " + r.verb
		}
		body, err := c.do(ctx, r)
		if err != nil {
			return p.uidConflict(w, err)
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

// writeRequest makes the request for a write.
func writeRequest(p place, w step.Write) (request, error) {
	switch {
	case w.Apply != nil:
		return applyRequest(p, w.Ref.UID, w.Apply)
	case w.Patch != nil:
		return patchRequest(p, w.Ref.UID, w.Patch)
	case w.Delete != nil:
		return deleteRequest(p, w.Ref.UID, w.Delete)
	}
	return request{}, errors.New("a write needs one of Apply, Patch and Delete")
}

func applyRequest(p place, uid types.UID, w *step.ApplyWrite) (request, error) {
	r := p.request("apply")
	o := w.Object.DeepCopy()
	switch {
	case o.GetName() != p.name:
		return r, r.wrap(fmt.Errorf("the object is named %q", o.GetName()))
	case o.GetNamespace() != "" && o.GetNamespace() != p.namespace:
		return r, r.wrap(fmt.Errorf("the object is in namespace %q", o.GetNamespace()))
	}
	o.SetManagedFields(nil) // which an apply must not have
	if uid != "" {
		o.SetUID(uid)
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

func patchRequest(p place, uid types.UID, w *step.PatchWrite) (request, error) {
	r := p.request("patch")
	body, err := withUID(w.Type, w.Body, uid)
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

// withUID makes a patch fail for an object with another UID. The API has no
// precondition for patches, but no patch may change a UID.
func withUID(kind types.PatchType, body []byte, uid types.UID) ([]byte, error) {
	if uid == "" {
		return body, nil
	}
	if kind == types.JSONPatchType {
		var ops []any
		if err := utiljson.Unmarshal(body, &ops); err != nil {
			return nil, fmt.Errorf("the JSON patch cannot be read: %w", err)
		}
		test := map[string]any{"op": "test", "path": "/metadata/uid", "value": string(uid)}
		return json.Marshal(append([]any{test}, ops...))
	}
	var fields map[string]any
	if err := utiljson.Unmarshal(body, &fields); err != nil {
		return nil, fmt.Errorf("the patch cannot be read: %w", err)
	}
	if err := unstructured.SetNestedField(fields, string(uid), "metadata", "uid"); err != nil {
		return nil, fmt.Errorf("the patch cannot be read: %w", err)
	}
	return json.Marshal(fields)
}

func deleteRequest(p place, uid types.UID, w *step.DeleteWrite) (request, error) {
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
	body, err := json.Marshal(opts)
	if err != nil {
		return r, r.wrap(err)
	}
	r.method, r.body = http.MethodDelete, body
	return r, nil
}

// uidConflict turns what the server says to a patch of another object than
// meant into the Conflict that it says to a delete.
func (p place) uidConflict(w step.Write, err error) error {
	if w.Ref.UID == "" || code(err) != http.StatusUnprocessableEntity {
		return err
	}
	text := err.Error()
	if !strings.Contains(text, "metadata.uid") && !strings.Contains(text, "/metadata/uid") {
		return err
	}
	return p.request("patch").wrap(apierrors.NewConflict(p.groupResource(), p.name,
		fmt.Errorf("another object has taken the name of the one with UID %s", w.Ref.UID)))
}
